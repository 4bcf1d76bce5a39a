"""Exported regressions predict the numbers of their table, and are standardized again for training."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

import t5x_like
from t5x_like.cli.main import main
from t5x_like.io.files import read_json, write_json
from t5x_like.model import parameters
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.frozen_weights import FrozenRecord, checksums
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.initial_weights import initial_checkpoint
from t5x_like.pretrained.model_card import ModelCard
from t5x_like.pretrained.open_checkpoint import open_checkpoint, open_frozen
from t5x_like.text.heads.head_answers import OutputScale
from tests.integration.test_fine_tuning_heads import BERT

CONFIG = replace(BERT, task="sequence_classification", num_labels=1)
SCALE = OutputScale(50_000.0, 2000.0)
CARD = ModelCard(scales={"prices": SCALE})
KERNEL, BIAS = (f"heads/scores/sequence_classification/projection/{name}" for name in ("kernel", "bias"))


@pytest.fixture(scope="module")
def weights() -> parameters.Parameters:
    return parameters.split(CONFIG.build(jax.random.key(0)))[1]


def test_the_last_layer_takes_over_the_scale_once(weights: parameters.Parameters, tmp_path: Path) -> None:
    first, back, again = (str(tmp_path / name) for name in ("first", "back", "again"))
    write_hugging_face(CONFIG, weights, first, card=CARD)
    assert main(["convert", "--from", first, "--to", back]) == 0
    assert main(["convert", "--from", back, "--to", again, "--export", "hf"]) == 0
    before = parameters.flatten(weights)
    for directory in (first, back, again):
        after = parameters.flatten(open_checkpoint(directory).params)
        np.testing.assert_allclose(after[KERNEL], before[KERNEL] * 2000, rtol=1e-6)
        np.testing.assert_allclose(after[BIAS], before[BIAS] * 2000 + 50_000, rtol=1e-6)
    assert "## Scale" not in Path(first, "README.md").read_text()


@pytest.mark.parametrize("writes", ["convert", "export_hugging_face"])
def test_a_run_is_exported_with_the_scale_of_its_task(
    weights: parameters.Parameters, tmp_path: Path, writes: str
) -> None:
    run, out = str(tmp_path / "run"), str(tmp_path / "out")
    write_hugging_face(CONFIG, weights, tmp_path / "published")
    assert main(["convert", "--from", str(tmp_path / "published"), "--to", run]) == 0
    head = {"tasks.0.head.mean": SCALE.mean, "tasks.0.head.deviation": SCALE.deviation}
    write_json(Path(run, "config.json"), {"tasks.0.name": "prices", **head})
    if writes == "convert":
        assert main(["convert", "--from", run, "--to", out, "--export", "hf"]) == 0
    else:
        t5x_like.export_hugging_face(t5x_like.from_pretrained(run), out)
    after, before = parameters.flatten(open_checkpoint(out).params), parameters.flatten(weights)
    np.testing.assert_allclose(after[BIAS], before[BIAS] * 2000 + 50_000, rtol=1e-6)
    assert read_json(Path(out, "config.json"), dict)["regression_scale"] == SCALE._asdict()


@pytest.mark.parametrize(
    ("card", "dtype"),
    [(CARD, "bfloat16"), (ModelCard(scales={"prices": SCALE, "stars": OutputScale(3.0, 1.0)}), "float32")],
    ids=["16 bits", "two scales"],
)
def test_outputs_stay_standardized_where_the_layer_cannot_take_over_the_scale(
    weights: parameters.Parameters, tmp_path: Path, card: ModelCard, dtype: str
) -> None:
    write_hugging_face(
        CONFIG, weights, tmp_path / "out", card=card, dtype="bfloat16" if dtype == "bfloat16" else "float32"
    )
    assert "- `prices`: output * 2000.0 + 50000.0\n" in (tmp_path / "out" / "README.md").read_text()
    assert "regression_scale" not in read_json(tmp_path / "out" / "config.json", dict)
    after = parameters.flatten(open_checkpoint(tmp_path / "out").params)
    np.testing.assert_allclose(after[KERNEL], parameters.flatten(weights)[KERNEL], rtol=1e-2)


@pytest.mark.parametrize(
    ("wanted", "factor", "added"),
    [(SCALE, 1.0, 0.0), (OutputScale(40_000.0, 1000.0), 2.0, 10.0), (OutputScale(), 2000.0, 50_000.0)],
    ids=["the same table", "another table", "plain numbers"],
)
def test_training_begins_with_the_head_of_an_export_in_the_scale_of_the_task(
    weights: parameters.Parameters, tmp_path: Path, wanted: OutputScale, factor: float, added: float
) -> None:
    write_hugging_face(CONFIG, weights, tmp_path / "out", card=CARD)
    opened = initial_checkpoint(tmp_path / "out", CONFIG, mesh=MeshConfig().build(), seed=0, scale=wanted)
    before, after = parameters.flatten(weights), parameters.flatten(opened.params)
    np.testing.assert_allclose(after[KERNEL], before[KERNEL] * factor, rtol=1e-6)
    np.testing.assert_allclose(after[BIAS], before[BIAS] * factor + added, rtol=1e-6, atol=1e-5)


def test_a_frozen_head_of_an_export_is_read_again_in_the_scale_of_its_run(
    weights: parameters.Parameters, tmp_path: Path
) -> None:
    export, run = str(tmp_path / "out"), tmp_path / "run"
    write_hugging_face(CONFIG, weights, export, card=CARD)
    mesh = MeshConfig().build()
    begun = initial_checkpoint(export, CONFIG, mesh=mesh, seed=0, scale=SCALE).params
    head = {"tasks.0.head.mean": SCALE.mean, "tasks.0.head.deviation": SCALE.deviation}
    write_json(run / "config.json", {"tasks.0.name": "prices", **head})
    write_json(run / "model.json", {})
    record = FrozenRecord(start_from=export, step=None, seed=0, checksums=checksums(begun))
    again = parameters.flatten(open_frozen(run, CONFIG, record, mesh=mesh))
    np.testing.assert_array_equal(again[BIAS], parameters.flatten(begun)[BIAS])
