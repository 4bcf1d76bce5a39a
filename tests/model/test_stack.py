"""Layers stacked and scanned are layers on top of each other, and all of them learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.block import Surroundings
from tests.model.tiny_t5 import TINY, changed, graphdef_of, predict, random_batch, weights_of


def test_a_scan_does_what_a_loop_over_layers_does():
    model = parameters.merge(graphdef_of(TINY), weights_of(TINY))
    stack = model.encoder
    x = jax.random.normal(jax.random.key(1), (2, 7, TINY.model_dim))
    positions = jnp.arange(7)

    @jax.jit
    def loop(x):
        around = Surroundings(bias=stack.relative_bias(positions, positions, 7))
        for layer in range(TINY.num_encoder_layers):
            block = jax.tree.map(lambda array: array[layer], stack.layers)  # noqa: B023
            x, _ = block(x, around)
        return stack.final_norm(x)

    scanned = jax.jit(lambda x: stack(x, Surroundings()).output)(x)
    np.testing.assert_allclose(scanned, loop(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("head", ["tied", "untied"])
def test_every_weight_has_a_float32_gradient(head):
    config, batch = changed(compute_dtype="bfloat16", head=head), random_batch()
    gradients = jax.jit(jax.grad(lambda params: predict(config, params, batch).logits.var()))(
        weights_of(changed(head=head))
    )
    for path, gradient in parameters.flatten(gradients).items():
        assert gradient.dtype == np.float32, path
        assert np.isfinite(gradient).all(), path
        assert np.any(gradient != 0), path
