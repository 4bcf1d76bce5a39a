"""LAMB against its formulas (You et al. 2020, algorithm 2), layer by layer, and against ``optax.lamb``."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t5x_like.optimizers.lamb import Lamb
from t5x_like.optimizers.schedules import Constant

AXES = {
    "wi": ("layers", "embed", "mlp"),
    "scale": ("layers", "norm"),
    "bias": ("mlp",),
    "zero": ("embed", "mlp"),
}
SHAPES = {"wi": (2, 8, 16), "scale": (2, 8), "bias": (16,), "zero": (2, 3)}


def draw(seed):
    rng = np.random.default_rng(seed)
    values = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    values["wi"][1] *= 100.0  # layers of very different sizes
    return values


def train(optimizer, params, gradients, axes=AXES):
    built = optimizer.build(axes) if isinstance(optimizer, Lamb) else optimizer
    state = built.init(params)
    for each in gradients:
        updates, state = built.update(each, state, params)
        params = optax.apply_updates(params, updates)
    return params


@pytest.mark.parametrize("bias_correction", [True, False])
def test_steps_are_those_of_the_paper_for_each_layer(bias_correction):
    lamb = Lamb(
        learning_rate=Constant(value=0.1),
        beta1=0.8,
        beta2=0.95,
        epsilon=1e-6,
        weight_decay_rate=0.05,
        bias_correction=bias_correction,
        max_gradient_norm=None,
    )
    start, gradients = draw(0), [draw(seed) for seed in range(1, 5)]
    start["zero"][:] = 0.0  # a weight without a norm takes Adam's step
    result = train(lamb, jax.tree.map(jnp.asarray, start), gradients)
    for name, axes in AXES.items():
        inner = tuple(dim for dim, axis in enumerate(axes) if axis != "layers")
        scales = name in ("wi", "zero")
        value, m, v = start[name].astype(np.float64), 0.0, 0.0
        for number, each in enumerate(gradients, start=1):
            m, v = 0.8 * m + 0.2 * each[name], 0.95 * v + 0.05 * each[name] ** 2
            first, second = (m / (1 - 0.8**number), v / (1 - 0.95**number)) if bias_correction else (m, v)
            step = first / (np.sqrt(second) + 1e-6) + (0.05 * value if scales else 0.0)
            norms = [np.sqrt(np.sum(array**2, axis=inner, keepdims=True)) for array in (value, step)]
            value = value - 0.1 * (np.where(norms[0] > 0, norms[0] / norms[1], 1.0) if scales else 1.0) * step
        np.testing.assert_allclose(result[name], value, rtol=1e-4, atol=1e-6)


def test_a_layer_of_a_stack_trains_as_optax_trains_it_alone():
    lamb = Lamb(learning_rate=0.1, weight_decay_rate=0.05, max_gradient_norm=None)
    start, gradients = draw(0), [draw(seed) for seed in range(1, 4)]
    stacked = train(lamb, {"wi": start["wi"]}, [{"wi": each["wi"]} for each in gradients], {"wi": AXES["wi"]})
    alone = optax.lamb(0.1, eps=1e-6, weight_decay=0.05)
    for layer in range(2):
        result = train(alone, start["wi"][layer], [each["wi"][layer] for each in gradients])
        np.testing.assert_allclose(stacked["wi"][layer], result, rtol=1e-4, atol=1e-6)
