"""Metrics that a task names, computed from a head's predictions."""

import json
import logging

import jax
import pytest
import sklearn.metrics

from t5x_like.evaluation.evaluator import HeadEvaluation
from t5x_like.evaluation.task_evaluators import write_results
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.text_task import TextTask

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
LABELS = ("refund", "delivery", "praise", "other")
NUM_ROWS, BAD_ROW = 40, 5


@pytest.fixture
def task(tmp_path, request):
    """Return a task of four unbalanced classes; one row of each split has no label."""
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    for split in ("train", "validation"):
        labels = [LABELS[index % 8] if index % 8 < 3 else "other" for index in range(NUM_ROWS)]
        labels[BAD_ROW] = ""
        rows = [f"{'abcdefgh'[index % 8]} {'abc'[index % 3]},{label}" for index, label in enumerate(labels)]
        (tmp_path / f"{split}.csv").write_text("\n".join(["text,label", *rows]) + "\n")

    def make(**changes):
        settings = {
            "name": request.node.name,
            "vocabulary": str(tmp_path / "vocab.txt"),
            "num_sentinels": 0,
            "files": {split: str(tmp_path / f"{split}.csv") for split in ("train", "validation")},
            "input_template": "{text}",
            "target_template": "{label}",
            "labels": LABELS,
            "metrics": ("accuracy", "macro_f1"),
            "on_bad_row": "skip",
        }
        made = TextTask(**(settings | changes))
        registry.register([made])
        return made

    return make


def test_every_metric_that_a_task_names_is_in_the_scores(task, tmp_path):
    name = task().name
    model = BertConfig(
        vocab_size=len(PIECES), model_dim=16, mlp_dim=32, num_heads=2, num_layers=1,
        max_position_embeddings=16, task="sequence_classification", num_labels=len(LABELS),
    )  # fmt: skip
    _, params = parameters.split(model.build(jax.random.key(3)))
    mesh = MeshConfig(data=1).build(jax.local_devices()[:1])
    evaluation = HeadEvaluation(mixture=name, inputs_length=16, batch_size=8)
    results = evaluation.evaluator(registry.resolve(evaluation.mixture), model, mesh).run(params)
    write_results(results, str(tmp_path), checkpoint="a model", step=None, config=model, params=params)
    entry = json.loads((tmp_path / "scores.json").read_text())["tasks"][name]
    rows = [json.loads(line) for line in (tmp_path / name / "predictions.jsonl").read_text().splitlines()]
    truth, guess = ([row[column] for row in rows] for column in ("target", "prediction"))
    f1 = sklearn.metrics.f1_score(truth, guess, average="macro", labels=LABELS)
    assert entry["scores"] == {
        "accuracy": pytest.approx(100 * sklearn.metrics.accuracy_score(truth, guess)),
        "mean_4class_f1": pytest.approx(100 * f1),
    }
    assert entry["baseline"].keys() == entry["scores"].keys()
    assert (
        entry["confusion"]["counts"] == sklearn.metrics.confusion_matrix(truth, guess, labels=LABELS).tolist()
    )
    assert (entry["examples"], entry["skipped"]) == (NUM_ROWS - 1, 1)
    assert entry["first_skipped"] == [
        f"{tmp_path}/validation.csv:{BAD_ROW + 2}: column 'label' is ''; it must be one of {', '.join(LABELS)}"
    ]


def test_a_metric_that_does_not_fit_is_refused_before_training_and_evaluation(task):
    name = task(metrics=("accuracy", "rouge")).name
    wanted = (
        "metric 'rouge' doesn't fit SequenceClassification, the format of its head; name any of "
        "accuracy, sequence_accuracy, macro_f1, matthews_corrcoef, or leave metrics out"
    )
    loader = LoaderConfig(mixture=name, batch_size=8, inputs_length=16, targets_length=2, layout="encoder")
    with pytest.raises(ValueError, match=wanted):
        build_loader(loader)
    mesh = MeshConfig(data=1).build(jax.local_devices()[:1])
    model = BertConfig(vocab_size=len(PIECES), model_dim=16, mlp_dim=32, num_heads=2, num_layers=1)
    evaluation = HeadEvaluation(mixture=name, inputs_length=16, batch_size=8)
    with pytest.raises(ValueError, match=wanted):
        evaluation.evaluator(registry.resolve(name), model, mesh)


def test_a_row_that_a_head_skips_is_counted_once(task, caplog):
    loader = LoaderConfig(
        mixture=task().name, batch_size=8, inputs_length=16, targets_length=2, layout="encoder"
    )
    with caplog.at_level(logging.WARNING):
        build_loader(loader)
    assert f"split 'train': skipped 1 of {NUM_ROWS} rows" in caplog.text


def test_a_limit_of_examples_counts_rows_that_a_head_can_use(task):
    assert len(list(task(max_examples=BAD_ROW + 2).head_rows("train"))) == BAD_ROW + 2


def test_a_split_without_a_row_that_a_head_can_use_is_refused(task):
    with pytest.raises(ValueError, match=rf"no usable row in .*; skipped {NUM_ROWS} of {NUM_ROWS} rows"):
        list(task(labels=("yes", "no"), metrics=()).head_rows("train"))
