"""Adagrad against its formula, and the memory of its sums."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.optimizers.adagrad import Adagrad
from t5x_like.optimizers.schedules import Constant

ADAGRAD = Adagrad(learning_rate=Constant(value=0.5), initial_accumulator=1.0)
AXES = {"kernel": ("embed", "mlp")}
PARAMS = {"kernel": jnp.full((1, 2), 2.0)}
GRADIENTS = [np.array([[3.0, 0.0]]), np.array([[-4.0, 1.0]])]


def updates_of(optimizer: Adagrad) -> list[np.ndarray]:
    built = optimizer.build(AXES)
    state, result = built.init(PARAMS), []
    for gradient in GRADIENTS:
        updates, state = built.update({"kernel": jnp.asarray(gradient, jnp.float32)}, state, PARAMS)
        result.append(np.asarray(updates["kernel"]))
    return result


@pytest.mark.parametrize("changes", [{}, {"initial_accumulator": 0.1}, {"epsilon": 2.0}])
def test_a_step_is_the_gradient_by_the_root_of_all_squares(changes):
    optimizer = replace(ADAGRAD, **changes)
    total = optimizer.initial_accumulator
    for gradient, result in zip(GRADIENTS, updates_of(optimizer), strict=True):
        total = total + gradient**2
        np.testing.assert_allclose(result, -0.5 * gradient / np.sqrt(total + optimizer.epsilon), rtol=1e-6)


def test_gradients_are_clipped_before():
    clipped = updates_of(replace(ADAGRAD, max_gradient_norm=1.0))[0]
    np.testing.assert_allclose(clipped, [[-0.5 / np.sqrt(2.0), 0.0]], rtol=1e-6)


def test_its_sums_are_sharded_like_the_weights():
    built = ADAGRAD.build(AXES)
    names = ADAGRAD.state_axes(built.init(PARAMS), AXES)
    assert any(each == ("embed", "mlp") for each in flat(names))


def flat(tree):
    if isinstance(tree, dict):
        return [leaf for each in tree.values() for leaf in flat(each)]
    if isinstance(tree, tuple) and not all(isinstance(each, str) for each in tree):
        return [leaf for each in tree for leaf in flat(each)]
    return [tree]


@pytest.mark.parametrize("name", ["initial_accumulator", "epsilon"])
def test_negative_numbers_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} is -1.0; give 0 or a positive number"):
        replace(ADAGRAD, **{name: -1.0})
