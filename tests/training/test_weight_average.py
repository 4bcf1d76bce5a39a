"""The moving average of weights: its equation, its place in the state, and which steps it begins with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.state import new_state, plan_state, saved_part, shardings_of
from t5x_like.training.step import train_step
from t5x_like.training.weight_average import ExponentialMovingAverage, UniformAverage
from tests.training.test_step import MODEL, random_batch

TRAINABLE = ("decoder/layers[-1]/*", "heads/*")


@pytest.mark.slow
def test_the_average_is_the_equations_on_eight_devices():
    mesh = MeshConfig(data=2, fsdp=2, model=2).build(jax.devices()[:8])
    average = ExponentialMovingAverage(decay=0.7, start_step=2)
    plan = plan_state(
        MODEL, AdamW(learning_rate=0.01), mesh, num_tasks=2, trainable=TRAINABLE, average=average
    )
    shardings = [jax.tree.leaves(shardings_of(plan.abstract[part])) for part in ("params", "average")]
    assert shardings[0] == shardings[1]
    assert "average" in saved_part(plan.abstract)
    step = jax.jit(
        train_step(plan, Supervised(), seed=1), donate_argnums=0, out_shardings=shardings_of(plan.abstract)
    )
    state = new_state(plan, MODEL, seed=0)
    expected = jax.tree.map(np.asarray, state["params"])
    with jax.set_mesh(mesh):
        for index in range(1, 6):
            state = step(state, place(random_batch(index), mesh))
            decay = 0.7 if index > 2 else 0.0
            now = jax.tree.map(np.asarray, state["params"])
            expected = jax.tree.map(lambda old, new, d=decay: d * old + (1 - d) * new, expected, now)
            if index == 2:
                jax.tree.map(np.testing.assert_array_equal, jax.tree.map(np.asarray, state["average"]), now)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), state["average"], expected
    )
    whole, last = (parameters.flatten(plan.weights(state, part)) for part in ("average", "params"))
    frozen = "embedding/tokens/table"
    np.testing.assert_array_equal(whole[frozen], last[frozen])
    kernel = "decoder/layers/0/feed_forward/up/kernel"
    np.testing.assert_array_equal(whole[kernel][0], last[kernel][0])
    assert np.any(whole[kernel][1] != last[kernel][1])


def test_a_uniform_average_is_the_mean_of_all_weights_from_its_first_step_on():
    weights = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    for start in (0, 1, 3):
        average = UniformAverage(start_step=start)
        results = {"w": jnp.full((3,), 7.0)}
        for step, each in enumerate(weights, start=1):
            results = average.update(results, {"w": jnp.asarray(each)}, jnp.asarray(step))
            if step <= start:
                np.testing.assert_allclose(results["w"], each, atol=1e-6)
        np.testing.assert_allclose(results["w"], weights[max(start - 1, 0) :].mean(0), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="start_step is -1; give 0 or a later step"):
        UniformAverage(start_step=-1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decay": 1.0}, r"decay is 1\.0; give a share between 0 and 1"),
        ({"start_step": -1}, "start_step is -1; give 0 or a later step"),
    ],
)
def test_averages_that_can_not_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ExponentialMovingAverage(**options)
