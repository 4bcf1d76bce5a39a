"""Layers stacked and scanned are layers on top of each other, and all of them learn."""

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.model import parameters
from t5x_like.model.layers.self_attention import AttentionContext
from tests.model.tiny_t5 import TINY, changed, graphdef_of, random_batch, weights_of


def test_a_scan_does_what_a_loop_over_layers_does():
    model = parameters.merge(graphdef_of(TINY), weights_of(TINY))
    stack = model.encoder
    x = jax.random.normal(jax.random.key(1), (2, 7, TINY.model_dim))
    positions = jnp.arange(7)

    @jax.jit
    def loop(x):
        context = AttentionContext(bias=stack.relative_bias(positions, positions, 7, bidirectional=True))
        for layer in range(TINY.num_encoder_layers):
            block = jax.tree.map(lambda array: array[layer], stack.layers["0"])  # noqa: B023
            x = block(x, context).x
        return stack.final_norm(x)

    scanned = jax.jit(lambda x: stack(x, AttentionContext(bidirectional=True)).output)(x)
    np.testing.assert_allclose(scanned, loop(x), rtol=0, atol=1e-5)


def test_every_weight_has_a_float32_gradient_though_activations_are_bfloat16():
    model = graphdef_of(changed(compute_dtype="bfloat16", num_encoder_layers=1, num_decoder_layers=1))

    @jax.jit
    @jax.grad
    def gradient(params, batch):
        return parameters.merge(model, params)(batch).logits.var()

    params = jax.tree.map_with_path(
        lambda path, array: array[:1] if "layers" in jax.tree_util.keystr(path) else array, weights_of(TINY)
    )
    for path, one in parameters.flatten(gradient(params, random_batch())).items():
        assert one.dtype == np.float32, path
        assert np.isfinite(one).all(), path
        assert np.any(one != 0), path
