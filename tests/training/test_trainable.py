"""Frozen weights: in the state, in no gradient and in no optimizer state."""

import math
from typing import Any

import jax
import jax.extend
import numpy as np
import optax
import pytest

from t5x_like.model import parameters
from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.optimizers import Adafactor, AdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.state import StateLayout, new_state, plan_state, saved_part, shardings_of
from t5x_like.training.step import train_step
from tests.training.test_step import MODEL, random_batch

DECODER = ("decoder/*", "heads/*")


def planned(trainable=("*",), optimizer=None, mesh=None) -> StateLayout:
    mesh = mesh or MeshConfig().build(jax.devices()[:1])
    return plan_state(MODEL, optimizer or Adafactor(), mesh, num_tasks=2, trainable=trainable)


def count_products(jaxpr: Any) -> int:
    """Multiplications in matrix products, those of a scan's body once for each layer."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            total += equation.outvars[0].aval.size * math.prod(left[dim] for dim in contracted)
        inner = sum(count_products(part) for part in jax.extend.core.jaxprs_in_params(equation.params))
        total += inner * (equation.params["length"] if equation.primitive.name == "scan" else 1)
    return total


def matrix_products(plan: StateLayout, stage: int = -1) -> int:
    """Multiplications in the matrix products of a training step."""
    step = train_step(plan, Supervised(), seed=0, stage=stage)
    return count_products(jax.make_jaxpr(step)(plan.abstract, random_batch(0)).jaxpr)


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
    everything, decoder, nothing = planned(), planned(DECODER), planned(("heads/*",))
    assert matrix_products(nothing) < matrix_products(decoder) < matrix_products(everything)


def test_layers_below_the_trained_ones_have_no_backward_pass():
    head, last, both = (
        matrix_products(planned(patterns))
        for patterns in (("heads/*",), ("heads/*", "decoder/layers[-1]/*"), ("heads/*", "decoder/layers/*"))
    )
    assert head < last < both
    # A trained first layer needs gradients through the last one's activations, but none of its weights.
    first = matrix_products(planned(("heads/*", "decoder/layers[0]/*")))
    assert last < first < both


def test_the_state_of_trained_layers_has_only_theirs():
    plan, whole = planned(("decoder/layers[-1]/*", "heads/*"), AdamW()), planned(optimizer=AdamW())
    trained, all_of_them = (parameters.flatten(each.abstract["params"]) for each in (plan, whole))
    kernel = "decoder/layers/0/feed_forward/up/kernel"
    assert trained[kernel].shape == (1, *all_of_them[kernel].shape[1:])
    sizes = {path: leaf.shape for path, leaf in trained.items()}
    moments = plan.abstract["opt_state"][1][0].mu
    assert {path: leaf.shape for path, leaf in parameters.flatten(moments).items()} == sizes
    assert parameters.flatten(plan.weights(plan.abstract)) == parameters.flatten(
        whole.weights(whole.abstract)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "trainable",
    [
        ("*/layers[-1]/*",),
        ("*/layers[0]/*", "heads/*"),
        ("*/layers[1]/*", "*/scale"),
    ],
)
def test_trained_layers_take_the_step_that_they_take_with_all_others(trainable):
    optimizer = AdamW(learning_rate=0.1, max_gradient_norm=None)
    states = []
    for patterns in (trainable, ("*",)):
        plan = planned(patterns, optimizer)
        step = jax.jit(train_step(plan, Supervised(), seed=1))
        states.append(step(new_state(plan, MODEL, seed=0), random_batch(0)))
        if patterns == trainable:
            part = plan
    same, _ = parameters.partition(states[1]["params"], part.trained)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), states[0]["params"], same)
    start = new_state(part, MODEL, seed=0)["frozen"]
    jax.tree.map(np.testing.assert_array_equal, states[0]["frozen"], start)


@pytest.mark.parametrize(
    ("trainable", "num_devices"),
    [
        pytest.param(DECODER, 1, marks=pytest.mark.slow),
        (DECODER, 8),
        pytest.param(("*/layers[-1]/*", "heads/*"), 8, marks=pytest.mark.slow),
    ],
)
def test_a_step_changes_trained_weights_only(trainable, num_devices):
    config = MeshConfig(data=2, fsdp=2, model=2) if num_devices == 8 else MeshConfig()
    mesh = config.build(jax.devices()[:num_devices])
    plan = planned(trainable, AdamW(), mesh)
    step = jax.jit(
        train_step(plan, Supervised(), seed=1), donate_argnums=0, out_shardings=shardings_of(plan.abstract)
    )
    state = new_state(plan, MODEL, seed=0)
    before = jax.tree.map(np.asarray, plan.weights(state))
    with jax.set_mesh(mesh):
        state = step(state, place(random_batch(0), mesh))
    after, start = parameters.flatten(plan.weights(state)), parameters.flatten(before)
    for path, rows in plan.trained.items():
        same = [np.array_equal(new, old) for new, old in zip(after[path], start[path], strict=True)]
        expected = rows if isinstance(rows, tuple) else (rows,) * len(same)
        assert not any(each and changes for each, changes in zip(same, expected, strict=True)) or rows is True
        assert all(each or changes for each, changes in zip(same, expected, strict=True)), path
        assert not all(same) or not any(expected), path
    assert float(optax.tree.norm(state["params"])) > 0
