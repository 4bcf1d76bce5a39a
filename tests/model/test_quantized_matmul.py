"""Products in 8 bits are close to those in full precision, forwards and backwards."""

import sys
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from t5x_like.model.layers.linear import Linear
from t5x_like.model.layers.quantized_matmul import Quantization, quantized_matmul
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.t5 import T5Config

TYPES = get_args(Quantization)


def distance(result, expected) -> float:
    return float(jnp.linalg.norm(result - expected) / jnp.linalg.norm(expected))


@pytest.mark.parametrize("quantization", TYPES)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_products_and_gradients_are_close(quantization, dtype):
    numbers = np.random.default_rng(0)
    x, kernel, weights = (
        jnp.asarray(numbers.normal(size=shape), dtype) for shape in ((3, 5, 64), (64, 32), (3, 5, 32))
    )

    def loss(product):
        return lambda x, kernel: jnp.sum(product(x, kernel) * weights)

    product = quantized_matmul(x, kernel, quantization)
    assert product.dtype == dtype
    limit = 0.01 if quantization == "int8" else 0.06
    assert 0 < distance(product, x @ kernel) < limit
    result = jax.grad(loss(lambda *both: quantized_matmul(*both, quantization)), argnums=(0, 1))(x, kernel)
    expected = jax.grad(loss(jnp.matmul), argnums=(0, 1))(x, kernel)
    assert 0 < distance(result[0], expected[0]) < 2 * limit
    assert distance(result[1], expected[1]) < 1e-2, "the kernel's gradient is not quantized"
    assert [each.dtype for each in result] == [dtype, dtype]


def test_rows_and_columns_have_scales_of_their_own():
    x = jnp.asarray([[1e-6, 2e-6], [3.0, 4.0]])
    kernel = jnp.asarray([[1.0, 1e5], [2.0, 2e5]])
    np.testing.assert_allclose(quantized_matmul(x, kernel, "int8"), x @ kernel, rtol=0.02)


@pytest.mark.parametrize("quantization", TYPES)
def test_projections_of_stacks_are_quantized_and_nothing_else(quantization):
    sizes = {"vocab_size": 128, "model_dim": 32, "mlp_dim": 64, "num_heads": 2}
    llama = LlamaConfig(**sizes, num_layers=2, num_kv_heads=2, quantization=quantization)
    t5 = T5Config(**sizes, head_dim=16, num_encoder_layers=2, num_decoder_layers=2, quantization=quantization)
    for config in (llama, t5):
        model = config.build(jax.random.key(0))
        linears = {path: each for path, each in nnx.iter_modules(model) if isinstance(each, Linear)}
        chosen = {path for path, each in linears.items() if each.quantization == quantization}
        assert chosen
        for path in linears:
            assert (path in chosen) == (path[0] in ("encoder", "decoder")), path


def test_without_qwix_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "qwix", None)
    with pytest.raises(ValueError, match=r"pip install 't5x-like\[quantization\]'"):
        quantized_matmul(jnp.ones((1, 2)), jnp.ones((2, 3)), "int8")
