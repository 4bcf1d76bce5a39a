"""Summaries of blocks: which tokens make them, and who sees them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.positions import RelativeBuckets
from t5x_like.model.layers.transient_global import TransientGlobalConfig, blocks_of
from tests.model.test_local_attention import TINY


@pytest.mark.parametrize(
    ("segments", "of_tokens", "of_blocks"),
    [
        ([1] * 6, [0, 0, 0, 1, 1, 1], [1, 1]),
        ([1] * 8, [0, 0, 0, 1, 1, 1, 1, 1], [1, 1]),
        ([1] * 5 + [0] * 3, [0, 0, 0, 0, 0, -1, -1, -1], [1, 0]),
        ([1] * 2 + [0] * 4, [-1] * 6, [0, 0]),
        ([1] * 4 + [2] * 2 + [3] * 6, [0] * 4 + [-1] * 2 + [1] * 3 + [2] * 3, [1, 3, 3, 0]),
        ([0] + [1] * 3 + [0] + [2] * 4, [-1, 0, 0, 0, -1, 1, 1, 1, 1], [1, 2, 0]),
        ([1] * 2, [-1, -1], []),
    ],
    ids=["whole", "left over", "padded", "too short", "packed", "padding between", "row too short"],
)
def test_segments_are_cut_into_blocks_of_three(segments, of_tokens, of_blocks) -> None:
    blocks = jax.jit(blocks_of, static_argnums=1)(jnp.asarray([segments, segments]), 3)
    np.testing.assert_array_equal(blocks.of_tokens, [of_tokens] * 2)
    np.testing.assert_array_equal(blocks.segment_ids, np.reshape([of_blocks] * 2, (2, -1)))


@pytest.fixture(scope="module")
def encode():
    """The compiled encoder of tiny weights."""
    config = dataclasses.replace(TINY, global_block_size=3, local_radius=2)
    graphdef, params = parameters.split(config.build(jax.random.key(0)))

    @jax.jit
    def run(tokens, segments):
        batch = Batch(encoder_input_tokens=tokens, encoder_segment_ids=segments)
        return parameters.merge(graphdef, params)(batch).encoder_output

    return run


def random_tokens(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).integers(1, 8, shape))


def test_packed_examples_are_encoded_as_alone(encode) -> None:
    left, right = random_tokens(1, 8), random_tokens(1, 11, seed=1)
    row = jnp.concatenate([left, right, jnp.zeros((1, 2), jnp.int32)], axis=1)
    packed = encode(row, jnp.asarray([[1] * 8 + [2] * 11 + [0] * 2]))
    np.testing.assert_allclose(packed[:, :8], encode(left, jnp.ones((1, 8), jnp.int32)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        packed[:, 8:19], encode(right, jnp.ones((1, 11), jnp.int32)), rtol=1e-5, atol=1e-5
    )


def test_a_token_far_away_is_seen_in_its_summary(encode) -> None:
    """Two layers of a radius of two see four tokens to either side without summaries."""
    tokens = random_tokens(1, 21)
    segments = jnp.ones((1, 21), jnp.int32)
    changed = tokens.at[0, 0].set(tokens[0, 0] % 7 + 1)
    assert np.abs(encode(tokens, segments) - encode(changed, segments))[0, -1].max() > 1e-4


def test_more_than_segments_cant_be_obeyed() -> None:
    config = dataclasses.replace(TINY, global_block_size=3)
    model = config.build(jax.random.key(0))
    with pytest.raises(ValueError, match="can't obey an attention_mask"):
        model(Batch(encoder_input_tokens=random_tokens(1, 4), attention_mask=jnp.ones((1, 4, 4), bool)))


@pytest.mark.parametrize("window", [None, SlidingWindow(left=2)])
def test_summaries_come_with_a_window_to_both_sides(window: SlidingWindow | None) -> None:
    summaries = TransientGlobalConfig(block_size=3, positions=RelativeBuckets())
    with pytest.raises(ValueError, match="equally far both ways"):
        BlockConfig(
            model_dim=4,
            attention=AttentionConfig(num_heads=1, head_dim=4, window=window),
            feed_forward=FeedForwardConfig(mlp_dim=4, activation="relu"),
            transient_global=summaries,
        )
