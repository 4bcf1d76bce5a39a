"""Products of linear layers, and the types in which their gradients are summed."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from t5x_like.model.layers.linear import Linear, matmul
from tests.model.zoo.tiny_models import TINY

NUM_ROWS = 4096


@pytest.fixture
def factors() -> tuple[jax.Array, jax.Array, jax.Array]:
    """Inputs and the gradient of outputs in bfloat16, and a kernel in float32."""
    keys = jax.random.split(jax.random.key(0), 3)
    x = 1.0 + 0.1 * jax.random.normal(keys[0], (NUM_ROWS, 16))
    gradient = 1.0 + 0.1 * jax.random.normal(keys[1], (NUM_ROWS, 8))
    return x.astype(jnp.bfloat16), jax.random.normal(keys[2], (16, 8)), gradient.astype(jnp.bfloat16)


@pytest.mark.parametrize("output_dtype", [None, jnp.float32])
def test_a_float32_kernel_has_its_gradient_in_float32(factors, output_dtype):
    x, kernel, gradient = factors
    product, transpose = jax.vjp(lambda x, kernel: matmul(x, kernel, output_dtype), x, kernel)
    of_x, of_kernel = transpose(gradient.astype(product.dtype))
    assert product.dtype == (output_dtype or jnp.bfloat16)
    assert (of_x.dtype, of_kernel.dtype) == (jnp.bfloat16, jnp.float32)
    exact = np.asarray(x, np.float64).T @ np.asarray(gradient, np.float64)
    np.testing.assert_allclose(of_kernel, exact, rtol=1e-5)
    in_bfloat16 = jax.vjp(lambda kernel: matmul(x, kernel), kernel.astype(jnp.bfloat16))[1](gradient)[0]
    assert np.abs(np.asarray(in_bfloat16, np.float64) / exact - 1).max() > 1e-4


def test_the_gradient_of_wide_logits_is_rounded_to_the_activations(factors):
    x, kernel, gradient = factors
    fine = gradient.astype(jnp.float32) * (1 + 2**-12)
    kernel = kernel.astype(jnp.bfloat16)
    transpose = jax.vjp(lambda x, kernel: matmul(x, kernel, jnp.float32), x, kernel)[1]
    jax.tree.map(np.testing.assert_array_equal, transpose(fine), transpose(gradient.astype(jnp.float32)))


def test_projections_of_a_model_sum_their_gradients_in_float32():
    config = replace(TINY["llama"], float32_gradients=True)
    model = config.build(jax.random.key(0))
    linears = {path: each for path, each in nnx.iter_modules(model) if isinstance(each, Linear)}
    chosen = {path[-1] for path, each in linears.items() if each.has_float32_gradient}
    assert chosen == {"query", "key", "value", "out", "gate", "up", "down"}
    assert not any(
        each.has_float32_gradient
        for _, each in nnx.iter_modules(TINY["llama"].build(jax.random.key(0)))
        if isinstance(each, Linear)
    )
