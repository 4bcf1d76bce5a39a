"""Products of linear layers, and the types in which their gradients are summed."""

from dataclasses import replace

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from t5x_like.model.layers.linear import Linear, matmul, narrow_gradients
from t5x_like.model.layers.remat import with_remat
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


NUM_LAYERS, WIDTH = 3, 8


def _stacked_layers() -> Linear:
    keys = jax.random.split(jax.random.key(0), NUM_LAYERS)
    return jax.vmap(lambda key: Linear(WIDTH, WIDTH, axes=("embed", "mlp"), key=key))(keys)


def _narrow_scan(body, x, layers):
    return jax.lax.scan(body, x, narrow_gradients(layers, x.dtype))


def _gradient_of_a_loop(loop):
    def run_layer(x, layer):
        return jnp.tanh(layer(x)), None

    def loss(layers):
        x = jnp.linspace(-1.0, 1.0, 4 * WIDTH).reshape(4, WIDTH).astype(jnp.bfloat16)
        return jnp.sum(loop(with_remat(run_layer, "minimal"), x, layers)[0].astype(jnp.float32))

    return jax.grad(loss)


def _stacked_results(jaxpr, of_shape):
    """Types of the arrays of a shape that loops return."""
    types = set()
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            types |= {str(each.aval.dtype) for each in equation.outvars if each.aval.shape == of_shape}
        for part in jax.extend.core.jaxprs_in_params(equation.params):
            types |= _stacked_results(part, of_shape)
    return types


def test_a_loop_stacks_gradients_of_kernels_in_the_type_of_activations():
    layers, shape = _stacked_layers(), (NUM_LAYERS, WIDTH, WIDTH)
    narrow, plain = _gradient_of_a_loop(_narrow_scan), _gradient_of_a_loop(jax.lax.scan)
    assert _stacked_results(jax.make_jaxpr(plain)(layers).jaxpr, shape) == {"float32"}
    assert _stacked_results(jax.make_jaxpr(narrow)(layers).jaxpr, shape) == {"bfloat16"}
    rounded = {"xla_allow_excess_precision": False}  # as the types say
    gradients = [jax.jit(each, compiler_options=rounded)(layers).kernel[...] for each in (narrow, plain)]
    assert gradients[0].dtype == jnp.float32
    assert np.any(gradients[0] != 0)
    np.testing.assert_array_equal(*gradients)


def test_a_loop_leaves_kernels_alone_whose_gradients_are_summed_in_float32():
    layers = _stacked_layers()
    layers.has_float32_gradient = True
    jaxpr = jax.make_jaxpr(_gradient_of_a_loop(_narrow_scan))(layers).jaxpr
    assert _stacked_results(jaxpr, (NUM_LAYERS, WIDTH, WIDTH)) == {"float32"}
