"""Lion against its formula (Chen et al. 2023, algorithm 2), and as a part of runs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.schedules import Constant

AXES = {"wi": ("layers", "embed", "mlp"), "scale": ("layers", "norm"), "bias": ("mlp",)}
SHAPES = {"wi": (2, 8, 16), "scale": (2, 8), "bias": (16,)}


def draw(seed):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def test_steps_are_those_of_the_paper():
    lion = Lion(
        learning_rate=Constant(value=0.1),
        beta1=0.8,
        beta2=0.95,
        weight_decay_rate=0.05,
        max_gradient_norm=None,
    )
    built = lion.build(AXES)
    params = jax.tree.map(jnp.asarray, draw(0))
    state, gradients = built.init(params), [draw(seed) for seed in range(1, 5)]
    for each in gradients:
        updates, state = built.update(each, state, params)
        params = optax.apply_updates(params, updates)
    for name, decay in (("wi", 0.05), ("scale", 0.0), ("bias", 0.0)):
        value, m = draw(0)[name].astype(np.float64), 0.0
        for each in gradients:
            value = value - 0.1 * (np.sign(0.8 * m + 0.2 * each[name]) + decay * value)
            m = 0.95 * m + 0.05 * each[name]
        np.testing.assert_allclose(params[name], value, rtol=1e-4, atol=1e-6)


def test_gradients_are_clipped_together_and_lower_layers_learn_less():
    sizes = {"wi": jnp.zeros((2, 8, 16)), "scale": jnp.zeros((2, 8)), "bias": jnp.zeros(16)}
    axes = {"encoder": {"layers": {"0": {"wi": AXES["wi"]}}}, "heads": {"bias": AXES["bias"]}}
    params = {"encoder": {"layers": {"0": {"wi": sizes["wi"]}}}, "heads": {"bias": sizes["bias"]}}
    built = Lion(learning_rate=Constant(value=1.0), layer_decay=0.5).build(axes)
    gradients = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 7.0), params)
    updates, state = built.update(gradients, built.init(params), params)
    np.testing.assert_allclose(updates["encoder"]["layers"]["0"]["wi"][:, 0, 0], [-0.125, -0.25])
    np.testing.assert_allclose(updates["heads"]["bias"], -1.0)
    momenta = [leaf for leaf in jax.tree.leaves(state) if leaf.ndim]
    assert float(optax.tree.norm(momenta)) == pytest.approx(0.01, rel=1e-3), (
        "a clipped gradient, times 1 - beta2"
    )


def test_fractions_and_norms_are_checked():
    with pytest.raises(ValueError, match="beta2 is 1"):
        Lion(beta2=1.0)
    with pytest.raises(ValueError, match="max_gradient_norm is -1"):
        Lion(max_gradient_norm=-1.0)
