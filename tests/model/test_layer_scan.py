"""Stacks of which some layers are frozen: the same gradients of the others, at a lower cost."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.families.family import predict
from t5x_like.model.heads import whole_logits
from tests.model.zoo.tiny_models import TINY
from tests.training.test_every_architecture import batch_for
from tests.training.test_trainable import count_products

CASES = [
    pytest.param("modernbert", {"num_layers": 7}, ("encoder/layers[4:]/*",), id="slots take turns"),
    pytest.param(
        "xlnet", {"num_layers": 3}, ("stack/layers[1]/*",), id="two streams", marks=pytest.mark.slow
    ),
    pytest.param(
        "t5_1_0",
        {"num_decoder_layers": 2, "remat": "full"},
        ("*/layers[-1]/*",),
        id="rematerialized",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "switch", {"num_encoder_layers": 4}, ("encoder/layers[2:]/*",), id="experts", marks=pytest.mark.slow
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("modernbert", {"num_layers": 7}),
        ("xlnet", {}),
        ("albert", {}),
    ],
)
def test_layers_one_after_another_compute_what_a_loop_does(name, options):
    config = replace(TINY[name], remat="minimal", **options)
    graphdef, params = parameters.split(config.build(jax.random.key(0)))
    unrolled = parameters.abstract(replace(config, scan_layers=False))[0]
    batch = jax.tree.map(jnp.asarray, batch_for(config, 0))

    def gradient_of(structure):
        def loss(weights):
            result = predict(parameters.merge(structure, weights), batch, dropout_key=jax.random.key(1))
            arrays = jax.tree.leaves(result._replace(extra_losses=None))
            return sum(jnp.sum(jnp.sin(each)) for each in arrays if jnp.issubdtype(each.dtype, jnp.floating))

        return jax.jit(jax.value_and_grad(loss))

    loop, no_loop = gradient_of(graphdef), gradient_of(unrolled)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), loop(params), no_loop(params)
    )
    num_loops = [each.lower(params).as_text().count("stablehlo.while") for each in (loop, no_loop)]
    assert num_loops[1] < num_loops[0]


@pytest.mark.parametrize(("name", "options", "patterns"), CASES)
def test_trained_layers_have_their_gradients_and_frozen_ones_cost_nothing(name, options, patterns):
    config = replace(TINY[name], **options)
    graphdef, params = parameters.split(config.build(jax.random.key(0)))
    selection = parameters.select(params, patterns)
    trained, frozen = parameters.partition(params, selection)
    marked = parameters.mark_trained(graphdef, params, selection)
    batch = jax.tree.map(jnp.asarray, batch_for(config, 0))

    def loss(weights, structure):
        result = predict(parameters.merge(structure, weights), batch, dropout_key=jax.random.key(1))
        outputs = [
            *(result.heads or {}).values(),
            result.logits,
            result.encoder_output,
            result.decoder_output,
        ]
        return sum(jnp.sum(jnp.sin(each)) for each in outputs if each is not None)

    def of_part(trained):
        return loss(parameters.combine(trained, frozen, selection), marked)

    whole = parameters.partition(
        jax.jit(jax.grad(lambda weights: loss(weights, graphdef)))(params), selection
    )[0]
    part = jax.jit(jax.grad(of_part))(trained)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4), part, whole)

    def unmarked(trained):
        return loss(parameters.combine(trained, frozen, selection), graphdef)

    costs = [count_products(jax.make_jaxpr(jax.grad(each))(trained).jaxpr) for each in (of_part, unmarked)]
    assert costs[0] < costs[1]


def test_gradients_of_a_loop_on_tpus_are_those_that_the_types_say(monkeypatch):
    config = replace(TINY["mt5"], compute_dtype="bfloat16", remat="minimal", num_encoder_layers=3)
    graphdef, params = parameters.split(config.build(jax.random.key(0)))
    selection = parameters.select(params, ("encoder/layers[1:]/*", "decoder/*"))
    trained, frozen = parameters.partition(params, selection)
    marked = parameters.mark_trained(graphdef, params, selection)
    batch = jax.tree.map(jnp.asarray, batch_for(config, 0))

    def loss(weights):
        logits = predict(
            parameters.merge(marked, parameters.combine(weights, frozen, selection)), batch
        ).logits
        assert logits is not None
        return jnp.sum(jnp.sin(whole_logits(logits)))

    def gradients():
        return jax.jit(jax.grad(loss), compiler_options={"xla_allow_excess_precision": False})(trained)

    elsewhere = gradients()
    monkeypatch.setattr("t5x_like.model.layers.layer_scan.platform", lambda: "tpu")
    jax.tree.map(np.testing.assert_array_equal, gradients(), elsewhere)
    assert all(np.any(each != 0) for each in jax.tree.leaves(elsewhere))
