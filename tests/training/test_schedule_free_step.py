"""Train steps of schedule-free runs: gradients at ``y``, weights ``x``, also in stages of gradual unfreezing."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t5x_like.model import parameters
from t5x_like.optimizers.optax_optimizer import OptaxOptimizer
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedule_free import ScheduleFreeAdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.state import State, StateLayout, new_state, plan_state, state_from_params
from t5x_like.training.step import train_step
from t5x_like.training.unfreezing import GradualUnfreezing
from tests.training.test_step import MODEL, random_batch

OPTIONS = {"beta1": 0.6, "beta2": 0.95, "epsilon": 1e-3}
TRAINABLE = ("decoder/layers[-1]/*", "heads/*")


def kept_gradients() -> optax.GradientTransformation:
    """An optimizer that moves no weight, and whose state is the last gradient."""

    def update(updates, state, params=None):
        del state, params
        return jax.tree.map(jnp.zeros_like, updates), updates

    return optax.GradientTransformation(lambda params: jax.tree.map(jnp.zeros_like, params), update)


def planned(optimizer, **options) -> StateLayout:
    mesh = MeshConfig().build(jax.devices()[:1])
    return plan_state(MODEL, optimizer, mesh, num_tasks=2, **options)


def flat(tree) -> dict[str, np.ndarray]:
    return {path: np.asarray(leaf, np.float64) for path, leaf in parameters.flatten(tree).items()}


def test_a_steps_gradients_are_those_of_y_and_its_weights_are_x():
    optimizer = ScheduleFreeAdamW(learning_rate=0.05, rates=(("heads/*", 0.5),), **OPTIONS)
    plan = planned(optimizer, trainable=TRAINABLE)
    oracle = planned(OptaxOptimizer(transformation=kept_gradients()), trainable=TRAINABLE)
    step, of_weights = (jax.jit(train_step(each, Supervised(), seed=1)) for each in (plan, oracle))
    state = new_state(plan, MODEL, seed=0)
    x, frozen = flat(state["params"]), flat(state["frozen"])
    z, v = dict(x), dict.fromkeys(x, 0.0)
    for step_index in range(1, 4):
        y = {path: 0.4 * z[path] + 0.6 * x[path] for path in x}
        tree = parameters.unflatten({path: jnp.asarray(each, jnp.float32) for path, each in y.items()})
        whole = parameters.combine(tree, state["frozen"], plan.trained)
        at_y = state_from_params(oracle, whole) | {"step": jnp.int32(step_index - 1)}
        gradients = flat(of_weights(at_y, random_batch(step_index))["opt_state"])
        state = step(state, random_batch(step_index))
        for path, gradient in gradients.items():
            v[path] = 0.95 * v[path] + 0.05 * gradient**2
            rate = 0.05 * (0.5 if path.startswith("heads/") else 1.0)
            z[path] = z[path] - rate * gradient / (np.sqrt(v[path] / (1 - 0.95**step_index)) + 1e-3)
            x[path] = x[path] + (z[path] - x[path]) / step_index  # a constant rate: the mean
        for path, result in flat(state["params"]).items():
            np.testing.assert_allclose(result, x[path], rtol=1e-4, atol=2e-5, err_msg=path)
    assert max(np.abs(y[path] - x[path]).max() for path in x) > 1e-3  # the two differ
    np.testing.assert_array_equal(
        flat(state["frozen"])["embedding/tokens/table"], frozen["embedding/tokens/table"]
    )
    weights = flat(plan.weights(state))
    np.testing.assert_array_equal(
        weights["decoder/layers/0/feed_forward/up/kernel"][1],
        flat(state["params"])["decoder/layers/0/feed_forward/up/kernel"][0],
    )


def test_other_optimizers_have_their_gradients_at_the_weights():
    plan = planned(AdamW())
    state: State = {"params": {"w": jnp.ones(2)}, "opt_state": (), "step": jnp.int32(0)}
    assert plan.at_gradients(state)["params"] is state["params"]
    staged = planned(AdamW(), unfreezing=GradualUnfreezing(every_steps=2), total_steps=20)
    assert staged.at_gradients(state)["params"] is state["params"]


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 1])
def test_groups_that_wait_stay_as_they_are_and_the_others_train_as_in_one_group(stage):
    optimizer = ScheduleFreeAdamW(learning_rate=0.05, **OPTIONS)
    groups = (("heads/*", "decoder/*"), ("*",))
    plan = planned(optimizer, unfreezing=GradualUnfreezing(at_steps=(10,), groups=groups), total_steps=20)
    same = planned(optimizer, trainable=("heads/*", "decoder/*") if stage == 0 else ("*",))
    states = []
    for each, options in ((plan, {"stage": stage}), (same, {})):
        step, state = (
            jax.jit(train_step(each, Supervised(), seed=1, **options)),
            new_state(each, MODEL, seed=0),
        )
        for index in range(2):
            state = step(state, random_batch(index))
        states.append(state)
    whole = [flat(each.weights(state)) for each, state in zip((plan, same), states, strict=True)]
    at = [
        flat(each.weights(each.at_gradients(state))) for each, state in zip((plan, same), states, strict=True)
    ]
    for path in whole[1]:
        np.testing.assert_allclose(whole[0][path], whole[1][path], rtol=1e-5, atol=1e-6, err_msg=path)
        np.testing.assert_allclose(at[0][path], at[1][path], rtol=1e-5, atol=1e-6, err_msg=path)
    table = "embedding/tokens/table"
    assert np.any(at[0][table] != whole[0][table]) == bool(stage)
