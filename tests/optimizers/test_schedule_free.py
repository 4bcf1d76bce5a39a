"""Schedule-free AdamW against its formulas (Defazio et al. 2024, algorithm 1), and against optax's."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from optax.contrib import schedule_free, schedule_free_adamw, schedule_free_eval_params

from t5x_like.optimizers.optax_optimizer import OptaxOptimizer
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedule_free import ScheduleFreeAdamW, gradient_weights
from t5x_like.optimizers.schedules import LinearWarmupLinearDecay, WarmupStableDecay

AXES = {"wi": ("layers", "embed", "mlp"), "bias": ("mlp",)}
SHAPES = {"wi": (2, 4, 6), "bias": (6,)}
WARMUP = WarmupStableDecay(peak=0.1, warmup_steps=3, decay_steps=0, total_steps=20)


def draw(seed):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


TARGET = draw(9)


def gradients_at(weights, step):
    """Gradients of a square error with noise, which depend on the weights at which they are computed."""
    noise = draw(100 + step)
    return {name: np.asarray(weights[name]) - TARGET[name] + 0.3 * noise[name] for name in weights}


def train(optimizer, num_steps, axes=AXES):
    built = optimizer.build(axes)
    params = jax.tree.map(jnp.asarray, draw(0))
    state = built.init(params)
    for step in range(num_steps):
        gradients = gradients_at(gradient_weights(built, state, params), step)
        updates, state = built.update(gradients, state, params)
        params = optax.apply_updates(params, updates)
    return params, gradient_weights(built, state, params)


@pytest.mark.parametrize("beta1", [0.9, 0.0])
def test_weights_are_the_papers_average_and_gradients_belong_to_its_y(beta1):
    options = {"beta1": beta1, "beta2": 0.95, "epsilon": 1e-3, "weight_decay_rate": 0.05}
    result, at = train(ScheduleFreeAdamW(learning_rate=WARMUP, **options), 8)
    x = {name: each.astype(np.float64) for name, each in draw(0).items()}
    z, v, total = dict(x), dict.fromkeys(x, 0.0), 0.0
    for step in range(8):
        rate = 0.1 * min(1.0, step / 3)
        total += rate**2
        y = {name: (1 - beta1) * z[name] + beta1 * x[name] for name in x}
        for name, gradient in gradients_at(y, step).items():
            v[name] = 0.95 * v[name] + 0.05 * gradient**2
            adam = gradient / (np.sqrt(v[name] / (1 - 0.95 ** (step + 1))) + 1e-3)
            z[name] = z[name] - rate * adam - rate * (0.05 if name == "wi" else 0.0) * y[name]
            share = rate**2 / total if total else 0.0
            x[name] = (1 - share) * x[name] + share * z[name]
    for name in x:
        np.testing.assert_allclose(result[name], x[name], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(at[name], (1 - beta1) * z[name] + beta1 * x[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("falls", [False, True])
def test_evaluated_weights_are_those_of_optax(falls):
    """optax keeps ``y`` and computes ``x`` from it; it counts steps from 1."""
    rate = LinearWarmupLinearDecay(peak=0.1, warmup_steps=3, total_steps=12) if falls else WARMUP
    reference = schedule_free(
        optax.chain(
            optax.scale_by_rms(decay=0.99, eps=1e-8, eps_in_sqrt=False, bias_correction=True),
            optax.scale_by_learning_rate(rate),
        ),
        lambda step: rate(step - 1),
        b1=0.8,
    )
    y = jax.tree.map(jnp.asarray, draw(0))
    state = reference.init(y)
    for step in range(10):
        updates, state = reference.update(gradients_at(y, step), state, y)
        y = optax.apply_updates(y, updates)
    result, at = train(ScheduleFreeAdamW(learning_rate=rate, beta1=0.8, beta2=0.99), 10)
    evaluated = schedule_free_eval_params(state, y)
    for name in SHAPES:
        np.testing.assert_allclose(result[name], evaluated[name], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(at[name], y[name], rtol=1e-4, atol=1e-4)
        assert np.abs(result[name] - y[name]).max() > 1e-3


def test_gradients_of_other_optimizers_belong_to_the_trained_weights():
    built = AdamW().build(AXES)
    params = draw(0)
    assert gradient_weights(built, built.init(params), params) is params


def test_factors_of_the_rate_and_clipping_belong_to_the_steps_that_are_averaged():
    doubled = ScheduleFreeAdamW(learning_rate=0.05, rates=(("*", 2.0),), max_gradient_norm=0.5)
    plain = ScheduleFreeAdamW(learning_rate=0.1, max_gradient_norm=0.5)
    results = [train(each, 6)[0] for each in (doubled, plain)]
    for name in SHAPES:
        np.testing.assert_allclose(results[0][name], results[1][name], rtol=1e-5, atol=1e-6)
    free, clipped = (  # whose steps have about the size of their gradients
        train(ScheduleFreeAdamW(learning_rate=0.1, epsilon=10.0, max_gradient_norm=norm), 6)[0]
        for norm in (None, 0.5)
    )
    moved = [np.abs(each["wi"] - draw(0)["wi"]).max() for each in (free, clipped)]
    assert 0 < moved[1] < 0.5 * moved[0]


def test_the_rate_of_the_guide_stays_after_its_warm_up_for_any_number_of_steps():
    rate = WarmupStableDecay(peak=0.0025, warmup_steps=1000, decay_steps=0, total_steps=1001)
    assert [float(rate(step)) for step in (500, 1000, 5000)] == pytest.approx([0.00125, 0.0025, 0.0025])


def test_its_state_has_the_size_of_adamws():
    sizes = [
        sum(leaf.size for leaf in jax.tree.leaves(each.build(AXES).init(draw(0))) if leaf.ndim)
        for each in (ScheduleFreeAdamW(), AdamW())
    ]
    assert sizes[0] == sizes[1] == 2 * sum(each.size for each in draw(0).values())


def test_optaxs_form_is_refused_because_runs_would_save_other_weights():
    optimizer = OptaxOptimizer(transformation=optax.chain(optax.clip(1.0), schedule_free_adamw(0.1)))
    with pytest.raises(ValueError, match="use t5x_like's ScheduleFreeAdamW"):
        optimizer.build(AXES).init(draw(0))
