"""The parts of a block, against their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.embedding import Embedding, Embeddings, EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import FeedForward, FeedForwardConfig, exact_gelu
from t5x_like.model.layers.masks import causal_mask, combine_masks, segment_mask
from t5x_like.model.layers.norm import RMSNorm, RMSNormConfig
from t5x_like.model.layers.residual import Residual

X = jax.random.normal(jax.random.key(0), (2, 5, 8))
SEEN = jax.random.normal(jax.random.key(1), (2, 7, 8))


@pytest.mark.parametrize("attention_scale", [1.0, None])
def test_attention_is_a_softmax_average_of_values(attention_scale):
    attention = Attention(
        AttentionConfig(num_heads=2, head_dim=3, attention_scale=attention_scale), 8, key=jax.random.key(2)
    )
    bias = jax.random.normal(jax.random.key(3), (1, 2, 5, 7))
    mask = np.arange(7) < np.array([4, 7])[:, None, None, None]
    result = attention(X, attention.project_keys_values(SEEN), mask=jnp.asarray(mask), bias=bias)

    kernels = {name: np.asarray(getattr(attention, name).kernel[...]) for name in ("query", "key", "value")}
    split = {"query": X, "key": SEEN, "value": SEEN}
    heads = {
        name: (np.asarray(split[name]) @ kernel).reshape(2, -1, 2, 3) for name, kernel in kernels.items()
    }
    scores = np.einsum("blhk,bmhk->bhlm", heads["query"], heads["key"])
    scores = scores / np.sqrt(3) if attention_scale is None else scores
    scores = np.where(mask, scores + np.asarray(bias), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    joined = np.einsum("bhlm,bmhk->blhk", weights, heads["value"]).reshape(2, 5, 6)
    np.testing.assert_allclose(result, joined @ np.asarray(attention.out.kernel[...]), rtol=0, atol=1e-5)


def test_a_query_that_may_look_nowhere_gets_a_number():
    attention = Attention(AttentionConfig(num_heads=2, head_dim=3), 8, key=jax.random.key(2))
    result = attention(X, attention.project_keys_values(SEEN), mask=jnp.zeros((1, 1, 1, 7), bool))
    assert np.isfinite(result).all()


@pytest.mark.parametrize(("activation", "gated"), [("relu", False), ("gelu_tanh", True)])
def test_feed_forward_is_its_formula(activation, gated):
    layer = FeedForward(
        FeedForwardConfig(mlp_dim=6, activation=activation, gated=gated), 8, key=jax.random.key(0)
    )
    x = np.asarray(X, np.float64)
    up = x @ np.asarray(layer.up.kernel[...])
    inner = up if layer.gate is None else x @ np.asarray(layer.gate.kernel[...])
    gelu = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
    hidden = gelu * up if gated else np.maximum(inner, 0)
    np.testing.assert_allclose(layer(X), hidden @ np.asarray(layer.down.kernel[...]), rtol=0, atol=1e-5)


def test_rms_norm_keeps_the_mean_and_works_in_float32():
    norm = RMSNorm(RMSNormConfig(epsilon=1e-6), 8)
    norm.scale[...] = jnp.arange(8.0)
    shifted = np.asarray(X) + 3.0
    expected = shifted / np.sqrt((shifted**2).mean(-1, keepdims=True) + 1e-6) * np.arange(8.0)
    np.testing.assert_allclose(norm(jnp.asarray(shifted)), expected, rtol=1e-5)
    large = norm(jnp.full((1, 1, 8), 300.0, jnp.bfloat16))  # its square has no float16
    np.testing.assert_allclose(large.astype(jnp.float32)[0, 0], np.arange(8.0), rtol=1e-2)


@pytest.mark.parametrize("slots", [("before",), ("final",), ("before", "after"), ()])
def test_norms_stand_in_the_slots_that_are_filled(slots):
    residual = Residual(RMSNormConfig(epsilon=1e-6), 8, norm_slots=slots)

    def norm(x, slot):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) if slot in slots else x

    x = np.asarray(X)
    expected = norm(x + norm(np.tanh(norm(x, "before")), "after"), "final")
    np.testing.assert_allclose(residual(X, jnp.tanh), expected, rtol=0, atol=1e-5)


def test_segments_see_themselves_only_and_padding_sees_all_of_them():
    segments = jnp.array([[1, 1, 2, 0]])
    expected = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0]]
    mask = segment_mask(segments, segments)
    assert mask is not None
    np.testing.assert_array_equal(mask[0, 0], np.array(expected, bool))
    assert segment_mask(None, None) is None


def test_both_masks_must_allow():
    causal = causal_mask(jnp.arange(3), jnp.arange(3))
    np.testing.assert_array_equal(causal[0, 0], np.tri(3, dtype=bool))
    assert combine_masks(None, causal) is causal
    assert combine_masks(causal, None) is causal
    neither = combine_masks(causal, ~causal)
    assert neither is not None
    assert not neither.any()


def test_exact_gelu_and_its_derivative_are_those_of_jax():
    x = jnp.linspace(-6.0, 6.0, 401)
    for order in range(3):
        actual, reference = exact_gelu, lambda x: jax.nn.gelu(x, approximate=False)
        for _ in range(order):
            actual, reference = jax.grad(actual), jax.grad(reference)
        np.testing.assert_allclose(jax.vmap(actual)(x), jax.vmap(reference)(x), atol=2e-6)


def test_exact_gelu_of_bfloat16_is_rounded_once():
    x = jnp.linspace(-6.0, 6.0, 401).astype(jnp.bfloat16)
    exact = exact_gelu(x.astype(jnp.float32)).astype(jnp.bfloat16)
    np.testing.assert_array_equal(exact_gelu(x), exact)
    assert np.any(np.asarray(jax.nn.gelu(x, approximate=False) != exact))


@pytest.mark.parametrize("num_rows", [3, 40])  # few rows have a gradient of their own
def test_rows_of_a_table_get_the_sum_of_their_tokens_gradients(num_rows):
    embedding = Embedding(num_rows, 4, key=jax.random.key(0))
    ids = jnp.array([[0, 1, 2, 1], [1, 1, 0, 2]])
    gradient = jax.random.normal(jax.random.key(1), (2, 4, 4))
    graphdef, params = parameters.split(embedding)

    def weighed(params):
        return jnp.sum(parameters.merge(graphdef, params)(ids, jnp.dtype("float32")) * gradient)

    (result,) = jax.tree.leaves(jax.grad(weighed)(params))
    wanted = np.zeros((num_rows, 4), np.float32)
    np.add.at(wanted, np.asarray(ids), np.asarray(gradient))
    np.testing.assert_allclose(result, wanted, atol=1e-6)
    outside = embedding(jnp.array([[num_rows, -1]]), jnp.dtype("float32"))
    assert bool(jnp.all(jnp.isnan(outside)))


@pytest.mark.parametrize("length", [3, 1])
def test_positions_and_absent_types_get_the_sum_over_the_batch(length):
    config = EmbeddingsConfig(
        vocab_size=8,
        embed_dim=4,
        positions=LearnedPositions(max_position_embeddings=5, offset=1),
        num_token_types=2,
    )
    graphdef, params = parameters.split(Embeddings(config, 4, key=jax.random.key(0)))
    tokens = jnp.arange(2 * length).reshape(2, length)
    gradient = np.asarray(jax.random.normal(jax.random.key(1), (2, length, 4)))

    def weighed(params):
        return jnp.sum(parameters.merge(graphdef, params)(tokens, dtype=jnp.dtype("float32")) * gradient)

    result = parameters.merge(graphdef, jax.grad(weighed)(params))
    _, pull_back = jax.vjp(
        lambda params: parameters.merge(graphdef, params)(tokens, dtype=jnp.dtype("float32")), params
    )
    # XLA for GPUs transposes activations for sums over the batch, and not for products.
    equations = jax.make_jaxpr(pull_back)(jnp.asarray(gradient)).eqns
    assert not [
        each for each in equations if "reduce" in str(each.primitive) and each.invars[0].aval.shape[0] > 1
    ]
    positions = np.zeros((6, 4), np.float32)
    positions[1 : 1 + length] = gradient.sum(axis=0)
    np.testing.assert_allclose(result.positions.table[...], positions, atol=1e-6)
    types = np.stack([gradient.sum(axis=(0, 1)), np.zeros(4, np.float32)])
    np.testing.assert_allclose(result.token_types.table[...], types, atol=1e-6)
