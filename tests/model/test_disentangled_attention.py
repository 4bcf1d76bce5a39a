"""Scores of contents and distances, their buckets, and convolutions next to a block."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.disentangled_attention import (
    DistanceTable,
    DistanceTableConfig,
    DistanceTerms,
    bucket_of,
    key_scores,
    query_scores,
)
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.token_convolution import TokenConvolution, TokenConvolutionConfig
from t5x_like.model.zoo.deberta_v2 import DebertaV2Config

LENGTH = 7
CONFIG = DistanceTableConfig(max_distance=20, num_buckets=4)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (DistanceTableConfig(max_distance=512), [0, 1, 3, 100, -600]),
        # Half are single distances; 512 - 1 is in the last bucket, and 600 would be in a further one.
        (DistanceTableConfig(max_distance=512, num_buckets=256), [0, 1, 3, 100, -270]),
        (DistanceTableConfig(max_distance=20, num_buckets=4), [0, 1, 3, 4, -4]),
    ],
)
def test_buckets_of_distances(config: DistanceTableConfig, expected: list[int]) -> None:
    distances = np.array([0, 1, 3, 100, -600])
    if config.num_buckets == 4:
        distances = np.array([0, 1, 5, 20, -20])
    np.testing.assert_array_equal(bucket_of(distances, config), expected)


def scores_by_definition(
    queries: np.ndarray, keys: np.ndarray, vectors: np.ndarray, *, of: str
) -> np.ndarray:
    """Each pair by itself: the vector of its distance times the query, or the key."""
    batch, length, heads, _ = queries.shape
    scores = np.zeros((batch, heads, length, length))
    for query in range(length):
        for key in range(length):
            bucket = bucket_of(np.array(query - key), CONFIG)
            vector = vectors[np.clip(bucket + 4, 0, 7)]
            content = queries[:, query] if of == "query" else keys[:, key]
            scores[:, :, query, key] = np.einsum("bhk,hk->bh", content, vector)
    return scores


@pytest.mark.parametrize("of", ["query", "key"])
@pytest.mark.parametrize("form", ["rows", "pairs"])
def test_scores_are_those_of_each_pair_by_itself(of: str, form: str) -> None:
    draw = np.random.default_rng(0).normal
    queries, keys, vectors = draw(size=(2, LENGTH, 3, 4)), draw(size=(2, LENGTH, 3, 4)), draw(size=(8, 3, 4))
    table = DistanceTable(CONFIG, 12, key=jax.random.key(0), init=Normal(0.02))
    places = jnp.arange(LENGTH)
    dtype = jnp.dtype(jnp.float32)
    distances = table.of_row(LENGTH, dtype) if form == "rows" else table.between(places, places, dtype)
    contents, score = (queries, query_scores) if of == "query" else (keys, key_scores)
    actual = score(jnp.asarray(contents, jnp.float32), jnp.asarray(vectors, jnp.float32), distances)
    expected = scores_by_definition(queries, keys, vectors, of=of)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_examples_packed_in_a_row_are_read_as_by_themselves() -> None:
    config = DebertaV2Config(
        vocab_size=30,
        model_dim=16,
        mlp_dim=24,
        num_heads=2,
        num_layers=2,
        position_buckets=4,
        conv_kernel_size=3,
        share_att_key=False,
    )
    model = config.build(jax.random.key(0))
    packed = Batch(
        encoder_input_tokens=jnp.array([[5, 6, 7, 8, 9, 10, 11, 0]]),
        encoder_segment_ids=jnp.array([[1, 1, 1, 2, 2, 2, 2, 0]]),
    )
    alone = Batch(encoder_input_tokens=jnp.array([[8, 9, 10, 11]]))
    np.testing.assert_allclose(model(packed).logits[:, 3:7], model(alone).logits, rtol=1e-5, atol=1e-5)


def test_a_convolution_is_that_of_jax() -> None:
    config = TokenConvolutionConfig(kernel_size=3, num_groups=2, activation="relu")
    layer = TokenConvolution(config, 8, LayerNormConfig(), key=jax.random.key(0), init=Normal(1.0))
    x, residual = jax.random.normal(jax.random.key(1), (2, 2, 6, 8))
    convolved = jax.lax.conv_general_dilated(
        x, layer.kernel[...], (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=2
    )
    expected = layer.norm(residual + jax.nn.relu(convolved))
    np.testing.assert_allclose(
        layer(x, residual, jnp.ones((2, 6), jnp.int32)), expected, rtol=1e-5, atol=1e-5
    )


def test_grouped_keys_have_no_scores_with_distances() -> None:
    with pytest.raises(ValueError, match="as many key heads as query heads"):
        AttentionConfig(num_heads=4, num_kv_heads=2, head_dim=4, positions=DistanceTerms(terms=("c2p",)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: DistanceTerms(terms=("c2p", "c2p")), "repeat themselves"),
        (lambda: DistanceTableConfig(max_distance=0), "max_distance is 0"),
        (lambda: DistanceTableConfig(max_distance=5, num_buckets=8), "another distance than 5"),
        (lambda: TokenConvolutionConfig(kernel_size=3, num_groups=0), "num_groups is 0"),
    ],
)
def test_what_has_no_meaning_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("implementation", ["blockwise", "pallas", "cudnn"])
def test_other_computations_of_attention_are_refused(implementation: Any) -> None:
    config = DebertaV2Config(vocab_size=9, model_dim=8, mlp_dim=8, num_heads=1, num_layers=1)
    model = dataclasses.replace(config, attention_implementation=implementation).build(jax.random.key(0))
    with pytest.raises(ValueError, match="vectors of distances are only computed plainly"):
        model(Batch(encoder_input_tokens=jnp.array([[1, 2, 3]])))
