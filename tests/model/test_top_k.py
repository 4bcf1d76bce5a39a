"""The highest scores and their indices are those that JAX finds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model.layers.top_k import argmax, top_k


def test_the_first_of_equally_high_scores_is_taken():
    scores = jnp.asarray(
        [[[0.0, 2.0, 2.0], [-jnp.inf, -jnp.inf, -jnp.inf]], [[3.0, 1.0, 3.0], [0.0, 1.0, 5.0]]]
    )
    np.testing.assert_array_equal(argmax(scores), jnp.argmax(scores, -1))
    assert argmax(scores).dtype == jnp.int32


def test_scores_that_are_not_a_number_give_an_index_of_the_vocabulary():
    assert int(argmax(jnp.full(3, jnp.nan))) == 2


@pytest.mark.parametrize("num_values", [2, 50, 10**6])
@pytest.mark.parametrize("num_scores", [5, 2500, 4096])
def test_the_best_scores_are_found_in_chunks_with_equal_ones_in_order(num_values, num_scores):
    scores = np.random.default_rng(num_values).integers(num_values, size=(6, num_scores)).astype(np.float32)
    scores[3, num_scores // 3 :] = -np.inf
    scores[4] = -np.inf
    scores[5, 7:] = -1e9
    for each, expected in zip(top_k(jnp.asarray(scores), 5), jax.lax.top_k(scores, 5), strict=True):
        np.testing.assert_array_equal(each, expected)
        assert each.dtype == expected.dtype


@pytest.mark.parametrize("axis", [None, 0, 1], ids=["whole on each", "by rows", "by scores"])
def test_several_devices_find_the_same(axis):
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.P(*[None if place != axis else "data" for place in range(2)])
    scores = np.random.default_rng(0).normal(size=(16, 2048)).astype(np.float32)
    placed = jax.device_put(scores, jax.NamedSharding(mesh, spec))
    result = jax.jit(lambda scores: top_k(scores, 4))(placed)
    for each, expected in zip(result, jax.lax.top_k(scores, 4), strict=True):
        np.testing.assert_array_equal(each, expected)
