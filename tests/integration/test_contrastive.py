"""Contrastive learning of vectors from a table of pairs, with a weight for each pair."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.io.files import read_jsonl
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.pretrained.transformers_api.pretrained_model import from_pretrained
from t5x_like.text import registry
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads import MultipleChoice
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.contrastive_learning import Contrastive, contrastive_losses
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.training.experiments import experiment_of

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
MODEL = BertConfig(
    vocab_size=384,
    model_dim=32,
    mlp_dim=64,
    num_heads=2,
    num_layers=1,
    max_position_embeddings=32,
    task="multiple_choice",
)


def test_the_loss_is_that_of_each_texts_own_answer_among_all_answers() -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 3, 4))
    vectors[2, :] = 0  # a row that fills up the batch
    vectors[1, 2] = 0  # an example without a hard negative
    losses, is_nearest, is_example = contrastive_losses(jnp.asarray(vectors, jnp.float32), temperature=0.5)
    answers = [vectors[0, 1], vectors[0, 2], vectors[1, 1]]
    for query, own in ((0, 0), (1, 2)):
        cosines = [
            vectors[query, 0] @ answer / np.linalg.norm(vectors[query, 0]) / np.linalg.norm(answer)
            for answer in answers
        ]
        scores = np.exp(np.array(cosines) / 0.5)
        np.testing.assert_allclose(losses[query], -np.log(scores[own] / scores.sum()), rtol=1e-5)
        assert is_nearest[query] == (int(np.argmax(scores)) == own)
    assert is_example.tolist() == [1, 1, 0]


def task(folder: Path, **changes: Any) -> TextTask:
    rows = [f"{word}\t{word.upper()} {index}\t{1 + index % 2}" for index in range(4) for word in WORDS]
    (folder / "pairs.tsv").write_text("query\tanswer\tpoints\n" + "\n".join(rows) + "\n")
    settings = {
        "name": folder.name,
        "vocabulary": "bytes",
        "files": {"train": str(folder / "pairs.tsv")},
        "input_template": "{query}",
        "target_template": "{answer}",
        "head": MultipleChoice(choices=("{query}", "{answer}"), keeps_unlabeled=True),
        "streams": {"weight": "points"},
    }
    return TextTask(**{**settings, **changes})


def run(folder: Path, definition: TextTask, method: Contrastive, **changes: Any) -> list[dict[str, Any]]:
    registry.register([definition])
    config = LoaderConfig(
        mixture=definition.name,
        split="train",
        batch_size=16,
        inputs_length=16,
        targets_length=2,
        layout="encoder",
    )
    settings = {
        "model_dir": str(folder / "run"),
        "total_steps": 40,
        "intervals": Intervals(log_every_steps=20),
        **changes,
    }
    optimizer = AdamW(learning_rate=Constant(value=3e-3))
    experiment = experiment_of(
        tasks=(definition,), train=config, model=MODEL, method=method, optimizer=optimizer, **settings
    )
    train(experiment)
    return [line for line in read_jsonl(f"{folder}/run/metrics.jsonl") if line["split"] == "train"]


@pytest.mark.slow
@pytest.mark.parametrize("num_microbatches", [1, 2])
def test_a_text_finds_its_own_answer_after_training(tmp_path: Path, num_microbatches: int) -> None:
    lines = run(tmp_path, task(tmp_path), Contrastive(weight="weight"), num_microbatches=num_microbatches)
    assert lines[-1]["loss"] < lines[0]["loss"]
    vectors = from_pretrained(str(tmp_path / "run")).embed(["one", "ONE 1", "two"], pooling="mean")
    assert vectors[0] @ vectors[1] > vectors[2] @ vectors[1]
    assert lines[-1]["accuracy"] > max(0.5, lines[0]["accuracy"])


def test_data_without_pairs_or_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Contrastive reads the stream 'weight', which mixture .* lacks"):
        run(tmp_path, task(tmp_path, streams={}), Contrastive(weight="weight"))
    with pytest.raises(ValueError, match="leave the options of loss out"):
        Contrastive(loss=LossConfig(label_smoothing=0.1))
