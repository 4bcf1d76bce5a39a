"""A run that learns which sentences form a summary, from a table to predictions."""

import json

import numpy as np
import pytest

from t5x_like.evaluation.evaluator import HeadEvaluation
from t5x_like.evaluation.run_predictor import predict
from t5x_like.evaluation.saved_runs import RunEvaluation, RunPrediction, evaluate_run
from t5x_like.io.files import read_json
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads import ExtractiveSummarization
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.losses import LossConfig
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.training.experiments import experiment_of

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
MODEL = BertConfig(
    vocab_size=len(PIECES),
    model_dim=32,
    mlp_dim=64,
    num_heads=2,
    num_layers=1,
    max_position_embeddings=32,
    task="token_classification",
)


def write_rows(file, seed):
    """Documents of six sentences of two letters, of which the second one is the summary."""
    rng = np.random.default_rng(seed)
    documents = [[" ".join(rng.permutation(list("abcdefgh"))[:2]) for _ in range(6)] for _ in range(64)]
    rows = [json.dumps({"document": sentences, "summary": sentences[1]}) for sentences in documents]
    file.write_text("\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    for seed, split in enumerate(("train", "validation")):
        write_rows(folder / f"{split}.jsonl", seed)
    return TextTask(
        name="second_sentences",
        vocabulary=str(folder / "vocab.txt"),
        num_sentinels=0,
        input_template="{document}",
        target_template="{summary}",
        files={split: str(folder / f"{split}.jsonl") for split in ("train", "validation")},
        head=ExtractiveSummarization(num_sentences=1, max_labels=1),
    )


@pytest.fixture(scope="module")
def trained(task, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "summaries"
    experiment = experiment_of(
        model=MODEL,
        train=LoaderConfig(
            mixture=task.name, batch_size=32, inputs_length=32, targets_length=2, layout="encoder"
        ),
        tasks=(task,),
        model_dir=str(run),
        total_steps=30,
        evaluations=(HeadEvaluation(mixture=task.name, inputs_length=32, batch_size=32),),
        optimizer=AdamW(learning_rate=Constant(value=0.01)),
        loss=LossConfig(z_loss=0.0),
        intervals=Intervals(log_every_steps=20, evaluate_every_steps=0, save_every_steps=30),
    )
    train(experiment)
    return run


def test_the_sentences_of_summaries_are_learned_and_scored_with_both_baselines(trained, task, tmp_path):
    evaluation = HeadEvaluation(mixture=task.name, split="validation", inputs_length=32, batch_size=32)
    evaluate_run(
        RunEvaluation(
            checkpoint=str(trained), evaluations=(evaluation,), output_dir=str(tmp_path), tasks=(task,)
        )
    )
    (path,) = tmp_path.rglob("scores.json")
    (entry,) = read_json(path)["tasks"].values()
    assert entry["scores"]["rouge1"] > 90
    assert entry["baseline"]["rouge1"] < 60
    assert entry["baseline_name"] == "the first sentences"
    assert entry["oracle"]["rouge1"] == pytest.approx(100.0)


def test_a_document_without_a_summary_is_summarized(trained, task):
    run = RunPrediction(checkpoint=str(trained), task=task.name, inputs_length=32, tasks=(task,))
    line = json.dumps({"document": ["b c", "d e", "a f", "g h"]})
    (prediction,) = predict(run, [line])
    assert prediction.prediction == "d e"
