"""Frozen weights: in the state, in no gradient and in no optimizer state."""

import jax
import numpy as np
import optax
import pytest

from t5x_like.model import parameters
from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.optimizers import Adafactor, AdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.training.losses import LossConfig
from t5x_like.training.state import StatePlan, new_state, plan_state, saved_part, shardings_of
from t5x_like.training.step import train_step
from tests.training.test_step import MODEL, random_batch

DECODER = ("decoder/*", "heads/*")


def planned(trainable=("*",), optimizer=None, mesh=None) -> StatePlan:
    mesh = mesh or MeshConfig().build(jax.devices()[:1])
    return plan_state(MODEL, optimizer or Adafactor(), mesh, num_tasks=2, trainable=trainable)


def test_parts_are_chosen_by_path_and_joined_again():
    params = {"encoder": {"layers": {"0": {"kernel": 1}}}, "heads": {"bias": 2, "kernel": 3}}
    trained, frozen = parameters.partition(params, ("heads/b*", "encoder/*"))
    assert trained == {"encoder": {"layers": {"0": {"kernel": 1}}}, "heads": {"bias": 2}}
    assert frozen == {"heads": {"kernel": 3}}
    assert parameters.combine(trained, frozen) == params
    assert parameters.partition(params, ("*",)) == (params, {})


def test_a_pattern_that_matches_nothing_is_refused():
    with pytest.raises(
        ValueError, match=r"trainable='head/\*' matches no weight .* begin with decoder/.*heads/"
    ):
        planned(("head/*",))


@pytest.mark.parametrize("optimizer", [Adafactor(momentum=0.9), AdamW(), Lion()])
def test_a_frozen_weight_has_no_optimizer_state(optimizer):
    plan, whole = planned(DECODER, optimizer), planned(optimizer=optimizer)
    trained, frozen = (parameters.flatten(plan.abstract[name]) for name in ("params", "frozen"))
    assert {path.split("/")[0] for path in trained} == {"decoder", "heads"}
    assert {path.split("/")[0] for path in frozen} == {"embedding", "encoder"}
    shapes = parameters.flatten(whole.weights(whole.abstract))
    assert parameters.flatten(plan.weights(plan.abstract)) == shapes
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(plan.abstract["opt_state"])]
    assert any("'decoder'" in path for path in paths)
    assert not any("'encoder'" in path or "'embedding'" in path for path in paths)
    assert "frozen" not in saved_part(plan.abstract)


def test_a_frozen_weight_has_no_gradient():
    def products(plan: StatePlan) -> int:
        step = train_step(plan, LossConfig(), seed=0)
        return str(jax.make_jaxpr(step)(plan.abstract, random_batch(0))).count("dot_general[")

    everything, decoder, nothing = planned(), planned(DECODER), planned(("heads/*",))
    assert products(nothing) < products(decoder) < products(everything)


@pytest.mark.parametrize("num_devices", [pytest.param(1, marks=pytest.mark.slow), 8])
def test_a_step_changes_trained_weights_only(num_devices):
    config = MeshConfig(data=2, fsdp=2, model=2) if num_devices == 8 else MeshConfig()
    mesh = config.build(jax.devices()[:num_devices])
    plan = planned(DECODER, AdamW(), mesh)
    step = jax.jit(
        train_step(plan, LossConfig(), seed=1), donate_argnums=0, out_shardings=shardings_of(plan.abstract)
    )
    state = new_state(plan, MODEL, seed=0)
    before = jax.tree.map(np.asarray, plan.weights(state))
    with jax.set_mesh(mesh):
        state = step(state, place(random_batch(0), mesh))
    after, start = parameters.flatten(plan.weights(state)), parameters.flatten(before)
    same = {path for path in after if np.array_equal(after[path], start[path])}
    assert same == set(parameters.flatten(plan.abstract["frozen"]))
    assert float(optax.tree.norm(state["params"])) > 0
