"""AdamW against its formulas, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.optimizers import Adafactor, Adam, AdamW
from t5x_like.optimizers.schedules import Constant

AXES = {"kernel": ("embed", "mlp"), "bias": ("mlp",)}


def steps(optimizer, gradients, params):
    built = optimizer.build(AXES)
    state = built.init(params)
    for each in gradients:
        updates, state = built.update(each, state, params)
        params = optax.apply_updates(params, updates)
    return params, state


@pytest.mark.parametrize("bias_correction", [True, False])
def test_steps_are_those_of_the_paper_with_or_without_its_correction(bias_correction):
    rng = np.random.RandomState(0)
    params = {"kernel": rng.randn(3, 2).astype(np.float32), "bias": rng.randn(2).astype(np.float32)}
    gradients = [
        {name: rng.randn(*value.shape).astype(np.float32) for name, value in params.items()} for _ in range(4)
    ]
    optimizer = AdamW(
        learning_rate=Constant(value=0.1),
        beta1=0.9,
        beta2=0.99,
        epsilon=1e-6,
        weight_decay_rate=0.05,
        bias_correction=bias_correction,
        max_gradient_norm=None,
    )
    result, _ = steps(optimizer, gradients, jax.tree.map(jnp.asarray, params))
    for name, decay in (("kernel", 0.05), ("bias", 0.0)):
        value, m, v = params[name].astype(np.float64), 0.0, 0.0
        for number, each in enumerate(gradients, start=1):
            m, v = 0.9 * m + 0.1 * each[name], 0.99 * v + 0.01 * each[name] ** 2
            first, second = (m / (1 - 0.9**number), v / (1 - 0.99**number)) if bias_correction else (m, v)
            value = value - 0.1 * (first / (np.sqrt(second) + 1e-6) + decay * value)
        np.testing.assert_allclose(result[name], value, rtol=1e-4)


STACKED = {"wi": ("layers", "embed", "mlp"), "scale": ("layers", "norm"), "small": ("mlp",)}


def test_steps_scaled_by_the_weights_are_those_of_nanot5_for_each_layer():
    """Nawrot 2023: Adam's step times max(0.001, RMS of the weight); weight decay has no scale."""
    rng = np.random.default_rng(0)
    params = {"wi": rng.normal(size=(2, 4, 6)), "scale": np.ones((2, 4)), "small": np.full(6, 1e-5)}
    params["wi"][1] *= 20.0
    params = {name: value.astype(np.float32) for name, value in params.items()}
    gradients = [
        {name: rng.normal(size=each.shape).astype(np.float32) for name, each in params.items()}
        for _ in range(4)
    ]
    optimizer = AdamW(
        learning_rate=0.02,
        beta2=0.99,
        epsilon=1e-6,
        weight_decay_rate=0.05,
        multiply_by_parameter_scale=True,
        max_gradient_norm=None,
    )
    built, result = optimizer.build(STACKED), jax.tree.map(jnp.asarray, params)
    state = built.init(result)
    for each in gradients:
        updates, state = built.update(each, state, result)
        result = optax.apply_updates(result, updates)
    for name, axes in STACKED.items():
        inner = tuple(dim for dim, axis in enumerate(axes) if axis != "layers")
        value, m, v = params[name].astype(np.float64), 0.0, 0.0
        for number, each in enumerate(gradients, start=1):
            m, v = 0.9 * m + 0.1 * each[name], 0.99 * v + 0.01 * np.square(each[name].astype(np.float64))
            adam = m / (1 - 0.9**number) / (np.sqrt(v / (1 - 0.99**number)) + 1e-6)
            size = np.maximum(1e-3, np.sqrt(np.mean(value**2, axis=inner, keepdims=True)))
            value = value - 0.02 * (size * adam + (0.05 * value if name == "wi" else 0.0))
        np.testing.assert_allclose(result[name], value, rtol=1e-4, atol=1e-7)


def test_a_run_can_be_gone_on_with_whichever_correction_it_has():
    params = {"kernel": jnp.ones((3, 2)), "bias": jnp.ones(2)}
    kept = [
        jax.tree.structure(AdamW(bias_correction=corrected).build(AXES).init(params))
        for corrected in (True, False)
    ]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("optimizer", [AdamW, Adafactor, Lion])
def test_a_number_is_a_constant_rate(optimizer):
    assert optimizer(learning_rate=1e-3).learning_rate == Constant(value=1e-3)


def test_wrong_types_are_refused():
    for wrong, message in (
        ({"learning_rate": "0.1"}, "AdamW.learning_rate needs a Constant, .* or a float, got '0.1'"),
        ({"beta1": "0.9"}, "AdamW.beta1 needs a float, got '0.9'"),
        ({"bias_correction": 1}, "AdamW.bias_correction needs .*, got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            AdamW(**wrong)


def test_a_class_of_options_says_which_optimizers_there_are() -> None:
    with pytest.raises(ValueError, match="Adam has options and no update rule; choose AdamW, "):
        Adam().build(AXES)
