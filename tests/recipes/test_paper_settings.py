"""Pretraining recipes read as many tokens as their papers say, fit their devices, and train."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks.recipe_flops import size_of
from benchmarks.recipe_names import recipe_names
from t5x_like.io.files import read_json
from t5x_like.optimizers.schedules import LinearWarmupCosine
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.training.batch_ramp import RampSchedule
from t5x_like.training.experiment import Experiment
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.start.fresh_weights import FreshWeights
from t5x_like.training.state import new_state, plan_state
from t5x_like.training.step import train_step
from tests.recipes.built_recipes import built, described, small
from tests.references import ROOT

PRETRAINING = [
    name
    for name in recipe_names("*/pretrain*.gin", "transformer/wmt*.gin", "distillation/distilbert.gin")
    if name != "quickstart/pretrain.gin"
]
_BILLION = 10**9
# Tokens of the warm-up, until the rate is at its lowest, and of the whole run.
TOKENS: dict[str, tuple[float, float, float]] = {
    f"gpt3/pretrain.gin SIZE={size}": (0.375 * _BILLION, 260 * _BILLION, 300 * _BILLION)
    for size in ("125m", "350m", "760m", "1_3b", "2_7b", "6_7b", "13b", "175b")
}
# Tokens of the whole run: LLaMA's table 2, Llama 2's table 1, the model card of Llama 3 8B and 70B, OLMoE's section 2.
TOKENS_IN_ALL = {
    **{f"llama/pretrain.gin SIZE={size}": 1000 * _BILLION for size in ("7b", "13b")},
    **{f"llama/pretrain.gin SIZE={size}": 1400 * _BILLION for size in ("30b", "65b")},
    **{f"llama2/pretrain.gin SIZE={size}": 2000 * _BILLION for size in ("7b", "13b", "34b", "70b")},
    **{f"llama3/pretrain_{size}.gin": 15_000 * _BILLION for size in ("8b", "70b")},
    "olmoe/pretrain.gin": 5_100 * _BILLION,
}
_NUM_ROWS = 4
_MAX_LENGTH = 512  # longer rows take minutes on a CPU


def shrunken(experiment: Experiment) -> Experiment:
    """Return the experiment with a small model, few and short rows, one device and no teacher; all else stays."""
    train = experiment.data.train
    parts = -(-max(train.inputs_length, train.targets_length) // _MAX_LENGTH)
    return experiment.with_fields(
        model=small(experiment.model),
        train=dataclasses.replace(
            train,
            mixture=experiment.data.validations[0].mixture,  # one with benchmarks would need their files
            batch_size=_NUM_ROWS,
            inputs_length=-(-train.inputs_length // parts),
            targets_length=-(-train.targets_length // parts),
        ),
        mesh=MeshConfig(data=1),
        num_microbatches=1,
        batch_size_ramp=None,
        start=FreshWeights(),
        method=Supervised(loss=experiment.method.loss),
        # Bytes have no [MASK] of their own, unlike BERT's vocabulary.
        tasks=tuple(
            dataclasses.replace(task, num_sentinels=100) if hasattr(task, "num_sentinels") else task
            for task in map(on_shipped_pairs, experiment.data.tasks)
        ),
    )


def test_the_computation_that_the_index_shows_is_of_these_recipes() -> None:
    counted = read_json(ROOT / "benchmarks" / "results" / "recipe_flops.json")["recipes"]
    names = [name for name in PRETRAINING if "/pretrain" in name]
    assert set(names) <= set(counted)
    sizes = {name: size_of(built(name)) for name in names}
    assert {name: {key: counted[name][key] for key in sizes[name]} for name in names} == sizes


def test_the_computation_is_six_flops_of_each_parameter_and_token() -> None:
    """Kaplan et al. 2020, §2.1, but for attention, tables without products, and stacks that read a part each."""
    counted = read_json(ROOT / "benchmarks" / "results" / "recipe_flops.json")["recipes"]
    ratios = {}
    for name in (name for name in PRETRAINING if "/pretrain" in name):
        if name.startswith(("albert/", "elmo/", "switch_transformer/", "olmoe/")):
            continue  # weights of all layers are one; a step scores a sample of words; a token reads one expert
        train = built(name).data.train
        tokens = counted[name]["rows"] * (train.inputs_length + train.targets_length)
        ratios[name] = counted[name]["flops"] / (6 * counted[name]["parameters"] * tokens)
    assert {name: ratio for name, ratio in ratios.items() if not 0.2 < ratio < 3} == {}


def on_shipped_pairs(task: Any) -> Any:
    """Return a task with German in place of French, as the pairs that come with the repository are German."""
    if getattr(task, "target_template", None) != "{fr}":
        return task
    return dataclasses.replace(task, target_template="{de}")


@pytest.mark.parametrize("name", PRETRAINING)
def test_the_devices_of_a_recipe_can_share_its_rows_and_heads(name: str) -> None:
    experiment = built(name)
    mesh, model = experiment.mesh, experiment.model
    batches = [experiment.data.train.batch_size // experiment.data.num_microbatches]
    for rows in batches + [validation.batch_size for validation in experiment.data.validations]:
        assert rows % (abs(mesh.data) * mesh.fsdp) == 0
    assert (model.num_heads or mesh.model) % mesh.model == 0


@pytest.fixture
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes give different tasks the same name."""
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "_mixtures", {})
    monkeypatch.setattr(registry, "_foreign", None)


@pytest.mark.parametrize(
    ("name", "num_tokens", "warmup_tokens"),
    [
        ("modernbert/pretrain_base.gin", 1.719e12, 3e9),
        ("modernbert/pretrain_large.gin", 9e11, 2e9),
        ("mmbert/pretrain_base.gin", 2.3e12, 3e9),
    ],
)
def test_steps_with_growing_batches_see_the_tokens_of_the_paper(
    name: str, num_tokens: float, warmup_tokens: float
) -> None:
    experiment = built(name)
    tokens = np.cumsum(rows_of_steps(experiment)) * experiment.data.train.inputs_length
    assert tokens[-1] == pytest.approx(num_tokens, rel=1e-5)
    warmup_steps = described(experiment)["learning_rate.warmup_steps"]
    assert tokens[warmup_steps - 1] == pytest.approx(warmup_tokens, rel=1e-3)


@pytest.mark.slow
@pytest.mark.usefixtures("empty_registry")
@pytest.mark.parametrize("name", PRETRAINING)
def test_a_small_model_with_the_settings_of_a_recipe_takes_two_steps(name: str) -> None:
    experiment = shrunken(built(name))
    registry.register(experiment.data.tasks)
    mesh = experiment.mesh.build(jax.devices()[:1])
    plan = plan_state(experiment.model, experiment.optimizer, mesh, num_tasks=1, batch_size=_NUM_ROWS)
    loader = build_loader(experiment.data.train)
    batch = place(next(loader), mesh)
    with jax.set_mesh(mesh):
        state = new_state(plan, experiment.model, seed=0)
        before = jax.tree.map(np.asarray, state["params"])
        step = jax.jit(train_step(plan, experiment.method, seed=0, label_loss=loader.label_loss))
        after = step(step(state, batch), batch)  # the rate of the first is 0 in most warm-ups
    changed = jax.tree.map(lambda old, new: bool(np.any(old != np.asarray(new))), before, after["params"])
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(after["params"]))
    # Scales of norms are 1, and the first rates of large models are less than float32's distance from 1 to the next.
    assert np.mean(jax.tree.leaves(changed)) >= 0.75


@pytest.mark.parametrize("name", TOKENS)
def test_a_run_whose_batches_grow_reads_the_tokens_of_its_paper(name: str) -> None:
    experiment = built(name)
    schedule = experiment.optimizer.learning_rate
    assert isinstance(schedule, LinearWarmupCosine)
    steps = (schedule.warmup_steps, schedule.total_steps, experiment.run.total_steps)
    rows = rows_of_steps(experiment)
    results = [float(rows[:step].sum()) * experiment.data.train.targets_length for step in steps]
    assert results == pytest.approx(TOKENS[name], rel=1e-3)


def test_llama_3_doubles_its_batches_at_the_tokens_of_the_paper() -> None:
    """Dubey et al. 2024, section 3.4.1; the whole run: section 3.2."""
    experiment = built("llama3/pretrain_405b.gin")
    rows = rows_of_steps(experiment)
    length = experiment.data.train.targets_length
    before = [rows[: int(np.searchsorted(rows, size))].sum() * length for size in (1024, 2048)]
    assert before == pytest.approx([252e6, 2.87e12], rel=0.02)
    assert rows.sum() * length == pytest.approx(15.6e12, rel=1e-6)


def rows_of_steps(experiment: Experiment) -> np.ndarray:
    """Return the rows of each batch of a run, int64 [T]."""
    ramp, parts, rows = (
        experiment.data.batch_size_ramp,
        experiment.data.num_microbatches,
        experiment.data.train.batch_size,
    )
    assert ramp is not None
    schedule = RampSchedule(ramp, batch_size=rows, num_microbatches=parts)
    grown = np.searchsorted(schedule.growing_steps, np.arange(experiment.run.total_steps), side="right")
    return (schedule.first + grown) * (rows // parts)


@pytest.mark.parametrize("name", TOKENS_IN_ALL)
def test_a_run_reads_as_many_tokens_as_its_paper_says(name: str) -> None:
    experiment = built(name)
    tokens = (
        experiment.run.total_steps * experiment.data.train.batch_size * experiment.data.train.targets_length
    )
    assert tokens == pytest.approx(TOKENS_IN_ALL[name], rel=1e-4)
