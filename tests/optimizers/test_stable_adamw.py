"""StableAdamW against its formulas (Wortsman et al. 2023, algorithm 2), for each layer and expert."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import LinearWarmupLinearDecay
from t5x_like.optimizers.stable_adamw import StableAdamW

AXES = {
    "wi": ("layers", "embed", "mlp"),
    "experts": ("layers", "experts", "embed", "mlp"),
    "scale": ("layers", "norm"),
    "bias": ("mlp",),
}
SHAPES = {"wi": (2, 8, 16), "experts": (2, 3, 4, 5), "scale": (2, 8), "bias": (16,)}
DECAYING = ("wi", "experts")


def draw(seed):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def spiking_gradients():
    """Gradients of four steps; those of one layer and of one expert are suddenly much larger in the third."""
    gradients = [draw(seed) for seed in range(1, 5)]
    gradients[2]["wi"][1] *= 50.0
    gradients[2]["experts"][0, 2] *= 50.0
    gradients[3]["wi"][0, :, 0] = 0.0
    return gradients


def train(optimizer, params, gradients, axes=AXES):
    built = optimizer.build(axes)
    state = built.init(params)
    for each in gradients:
        updates, state = built.update(each, state, params)
        params = optax.apply_updates(params, updates)
    return params


@pytest.mark.parametrize("bias_correction", [True, False])
def test_steps_are_those_of_the_paper_for_each_layer_and_expert(bias_correction):
    optimizer = StableAdamW(
        learning_rate=LinearWarmupLinearDecay(peak=0.1, warmup_steps=2, total_steps=10),
        beta1=0.8,
        beta2=0.95,
        epsilon=1e-3,
        weight_decay_rate=0.05,
        bias_correction=bias_correction,
    )
    start, gradients = draw(0), spiking_gradients()
    result = train(optimizer, jax.tree.map(jnp.asarray, start), gradients)
    seen = set()
    for name, axes in AXES.items():
        inner = tuple(dim for dim, axis in enumerate(axes) if axis not in ("layers", "experts"))
        value, m, u = start[name].astype(np.float64), 0.0, 0.0
        for number, each in enumerate(gradients, start=1):
            betas = [0.8, 0.95]
            if bias_correction:  # the paper's form, which averages with changing betas
                betas = [beta * (1 - beta ** (number - 1)) / (1 - beta**number) for beta in betas]
            m = betas[0] * m + (1 - betas[0]) * each[name]
            u = betas[1] * u + (1 - betas[1]) * np.square(each[name].astype(np.float64))
            rms = np.sqrt(np.mean(each[name] ** 2 / np.maximum(u, 1e-6), axis=inner, keepdims=True))
            rate = [0.0, 0.05, 0.1, 0.1 * 7 / 8][number - 1] / np.maximum(1, rms)
            decay = 0.05 * value if name in DECAYING else 0.0
            value = value - rate * (m / (np.sqrt(u) + 1e-3) + decay)
            seen |= set(np.ravel(rms > 1).tolist())
        np.testing.assert_allclose(result[name], value, rtol=2e-5, atol=1e-6)
    assert seen == {True, False} or not bias_correction


def test_a_layer_of_a_stack_trains_as_it_does_alone():
    optimizer = StableAdamW(learning_rate=0.1)
    start, gradients = draw(0), spiking_gradients()
    stacked = train(optimizer, start, gradients)
    for layer in range(2):
        alone = train(
            optimizer,
            {"wi": start["wi"][layer]},
            [{"wi": each["wi"][layer]} for each in gradients],
            {"wi": AXES["wi"][1:]},
        )
        np.testing.assert_allclose(stacked["wi"][layer], alone["wi"], rtol=1e-5, atol=1e-6)


def test_only_a_layer_whose_gradients_grew_takes_smaller_steps_than_with_adamw():
    start = draw(0)
    gradients = [jax.tree.map(np.ones_like, start) for _ in range(3)]
    gradients[2]["wi"][1] *= 50.0
    options = {"learning_rate": 0.1, "weight_decay_rate": 0.0, "epsilon": 1e-6, "beta2": 0.99}
    stable = train(StableAdamW(**options), start, gradients)
    plain = train(AdamW(**options, max_gradient_norm=None), start, gradients)
    np.testing.assert_allclose(stable["wi"][0], plain["wi"][0], rtol=1e-5, atol=1e-6)
    last = [np.abs(each["wi"][1] - start["wi"][1]).mean() - 0.2 for each in (stable, plain)]
    assert 0 < last[0] < 0.7 * last[1]


def test_a_weight_without_gradients_stays():
    params = {"bias": jnp.ones(16)}
    result = train(StableAdamW(learning_rate=0.1), params, [{"bias": np.zeros(16)}] * 2, {"bias": ("mlp",)})
    np.testing.assert_array_equal(result["bias"], params["bias"])
