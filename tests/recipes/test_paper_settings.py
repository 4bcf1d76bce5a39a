"""Pretraining recipes have the settings of their papers, and train."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.gin_config.configuration import load
from t5x_like.io.files import shipped_directory
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.training.experiment import Experiment, describe
from t5x_like.training.state import new_state, plan_state
from t5x_like.training.step import train_step
from tests.recipes.paper_settings import PAPER_SETTINGS

RECIPES = shipped_directory("gin") / "recipes"
CORPUS = {
    "TRAIN_FILES": "data/king_james/train.txt",
    "VALIDATION_FILES": "data/king_james/validation.txt",
    "VOCABULARY": "bytes",
    "INITIAL_CHECKPOINT": "run",
    "MODEL_DIR": "run",
}
PAIRS = {
    f"{split.upper()}_FILES": f"data/debian_handbook/{split}.tsv" for split in ("train", "validation", "test")
}
_NUM_ROWS = 4
_SMALL_SIZES = {
    "model_dim": 64,
    "embedding_dim": 32,
    "mlp_dim": 128,
    "head_dim": 16,
    "num_heads": 4,
    "encoder_mlp_dim": 128,
    "decoder_mlp_dim": 128,
    "num_encoder_heads": 4,
    "num_decoder_heads": 4,
    "num_kv_heads": 2,
    "num_layers": 2,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
}


def built(name: str, **macros: Any) -> Experiment:
    text = (RECIPES / name).read_text()
    given = CORPUS | (PAIRS if "runs/translate.gin" in text else {}) | macros
    if "INITIAL_CHECKPOINT" not in text:
        del given["INITIAL_CHECKPOINT"]
    return load(
        [str(RECIPES / name)], [f"{key}={value!r}" for key, value in given.items()], roots=[Experiment]
    ).value


def shrunken(experiment: Experiment) -> Experiment:
    """Return the experiment with a small model, few rows and one device; all else stays."""
    return dataclasses.replace(
        experiment,
        model=small(experiment.model),
        train=dataclasses.replace(experiment.train, batch_size=_NUM_ROWS),
        mesh=MeshConfig(data=1),
        num_microbatches=1,
        batch_size_ramp=None,
        start_from=None,
    )


def small(config: Any) -> Any:
    """Return a model's configuration with small widths and few layers, nested ones too."""
    changed = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            changed[field.name] = small(value)
        elif isinstance(value, int) and field.name in _SMALL_SIZES:
            changed[field.name] = min(value, _SMALL_SIZES[field.name])
    return (
        dataclasses.replace(config, compute_dtype="float32", **changed)
        if hasattr(config, "compute_dtype")
        else dataclasses.replace(config, **changed)
    )


def described(experiment: Experiment) -> dict[str, Any]:
    names = describe(experiment)
    return {
        name.removeprefix("tasks.0.").replace("optimizer.learning_rate.", "learning_rate."): value
        for name, value in names.items()
    }


@pytest.mark.parametrize("name", PAPER_SETTINGS)
def test_a_recipe_has_the_settings_of_its_paper(name: str) -> None:
    found = described(built(name))
    differing = {
        key: (found.get(key, "no such field"), *each)
        for key, each in PAPER_SETTINGS[name].items()
        if key not in found or found[key] != each.value
    }
    assert not differing


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER_SETTINGS)
def test_a_small_model_with_the_settings_of_a_recipe_takes_two_steps(name: str) -> None:
    experiment = shrunken(built(name))
    registry.register(experiment.tasks)
    mesh = experiment.mesh.build(jax.devices()[:1])
    plan = plan_state(experiment.model, experiment.optimizer, mesh, num_tasks=1, batch_size=_NUM_ROWS)
    batch = place(next(build_loader(experiment.train)), mesh)
    with jax.set_mesh(mesh):
        state = new_state(plan, experiment.model, seed=0)
        before = jax.tree.map(np.asarray, state["params"])
        step = jax.jit(train_step(plan, experiment.loss, seed=0))
        after = step(step(state, batch), batch)  # the rate of the first is 0 in most warm-ups
    changed = jax.tree.map(lambda old, new: bool(np.any(old != np.asarray(new))), before, after["params"])
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(after["params"]))
    assert np.mean(jax.tree.leaves(changed)) > 0.8


def test_every_pretraining_recipe_of_a_paper_is_compared_with_it() -> None:
    files = {str(file.relative_to(RECIPES)) for file in RECIPES.glob("*/pretrain*.gin")}
    assert files - set(PAPER_SETTINGS) == {"quickstart/pretrain.gin"}
