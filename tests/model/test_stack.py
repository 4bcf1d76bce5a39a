"""Layers stacked and scanned are layers on top of each other, and all of them learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.self_attention import AttentionContext
from t5x_like.model.layers.stack import unrolled
from tests.model.tiny_t5 import TINY, changed, graphdef_of, random_batch, weights_of
from tests.model.zoo.tiny_models import TINY as TINY_MODELS
from tests.training.test_every_architecture import batch_for


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


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("t5_1_0", marks=pytest.mark.slow),
        "gemma2",
        pytest.param("albert", marks=pytest.mark.slow),
        pytest.param("switch", marks=pytest.mark.slow),
    ],
)
def test_a_model_without_loops_over_layers_computes_the_same_and_leaves_the_first_as_it_was(name):
    config = TINY_MODELS[name]
    batch = jax.tree.map(jnp.asarray, batch_for(config, 0))
    model = config.build(jax.random.key(0))
    paths = set(parameters.flatten(parameters.split(model)[1]))
    graphdef, params = parameters.split(unrolled(model))
    outputs = [
        np.asarray(
            jax.jit(lambda params, graphdef=graphdef: parameters.merge(graphdef, params)(batch).logits)(
                params
            )
        )
        for graphdef, params in (parameters.split(model), (graphdef, params))
    ]
    np.testing.assert_allclose(*outputs, rtol=0, atol=1e-5)
    assert set(parameters.flatten(parameters.split(model)[1])) == paths
    slots = {leaf.shape[0] for path, leaf in parameters.flatten(params).items() if "/layers/" in path}
    assert slots == {1} or config.task == "masked_lm"  # ALBERT's layers share their weights


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
