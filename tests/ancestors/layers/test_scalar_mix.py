"""The weighted sum of layers against its formula, and values of a restatement in PyTorch."""

import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.layers.scalar_mix import ScalarMix, ScalarMixConfig
from tests.references import FIXTURES, read_arrays

OUTPUTS = read_arrays(FIXTURES / "elmo/outputs.npz")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def mix_of(*, layer_norm: bool, l2_weight: float = 0.0) -> ScalarMix:
    mix = ScalarMix(ScalarMixConfig(num_layers=3, layer_norm=layer_norm, l2_weight=l2_weight))
    mix.weights[...] = jnp.asarray(OUTPUTS["s"])
    mix.gamma[...] = jnp.asarray(OUTPUTS["gamma"])
    return mix


@pytest.mark.parametrize(("layer_norm", "name"), [(False, "mix"), (True, "normalized_mix")])
def test_the_mix_equals_the_restatement(layer_norm, name):
    mask = OUTPUTS["mask"]
    hidden = np.where(mask[None, ..., None], OUTPUTS["hidden"], 1e3)  # padding doesn't count
    result = np.asarray(mix_of(layer_norm=layer_norm)(jnp.asarray(hidden), jnp.asarray(mask)))
    np.testing.assert_allclose(result[mask], OUTPUTS[name][mask], **CLOSE)


def test_without_a_mask_every_token_is_real():
    hidden = np.random.default_rng(0).normal(size=(3, 2, 4, 5)).astype(np.float32)
    shares = np.exp(OUTPUTS["s"]) / np.exp(OUTPUTS["s"]).sum()
    normed = [(layer - layer.mean()) / layer.std() for layer in hidden.astype(np.float64)]
    expected = OUTPUTS["gamma"] * sum(share * layer for share, layer in zip(shares, normed, strict=True))
    np.testing.assert_allclose(mix_of(layer_norm=True)(jnp.asarray(hidden)), expected, **CLOSE)


def test_fresh_weights_are_the_mean():
    hidden = np.random.default_rng(0).normal(size=(2, 1, 3, 4)).astype(np.float32)
    result = ScalarMix(ScalarMixConfig(num_layers=2))(jnp.asarray(hidden))
    np.testing.assert_allclose(result, hidden.mean(axis=0), **CLOSE)


def test_the_penalty_is_the_squared_norm_of_the_weights():
    expected = 0.5 * np.square(OUTPUTS["s"]).sum()
    np.testing.assert_allclose(mix_of(layer_norm=False, l2_weight=0.5).penalty(), expected, rtol=1e-6)


def test_another_number_of_layers_is_refused():
    with pytest.raises(ValueError, match="2 layers are given, and num_layers is 3"):
        mix_of(layer_norm=False)(jnp.zeros((2, 1, 3, 4)))
    with pytest.raises(ValueError, match="num_layers is 0"):
        ScalarMixConfig(num_layers=0)
    with pytest.raises(ValueError, match="l2_weight is -1"):
        ScalarMixConfig(num_layers=1, l2_weight=-1.0)
