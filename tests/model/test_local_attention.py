"""Attention to neighbours, cut into blocks, is the full computation under a mask, at less cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.local_attention import block_length, indices_in_blocks, local_attention
from t5x_like.model.layers.masks import SlidingWindow, combine_masks, segment_mask, window_mask
from t5x_like.model.layers.positions import RelativeBias, RelativeBuckets
from t5x_like.model.layers.rotary import Rotary
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.longt5 import LongT5Config
from tests.slow_cases import slow_except

RADIUS = 3
# Two packed examples with padding, a row of one example, and one that is padded on both sides.
SEGMENTS = jnp.asarray([[1] * 6 + [2] * 9 + [0] * 2, [1] * 17, [0] * 3 + [1] * 10 + [0] * 4])


@pytest.mark.parametrize(
    "config",
    [
        AttentionConfig(num_heads=4, head_dim=3, attention_scale=1.0),
        AttentionConfig(
            num_heads=4,
            head_dim=4,
            num_kv_heads=2,
            attention_logit_soft_cap=2.0,
            positions=Rotary(rotated_dim=4),
        ),
    ],
    ids=["plain", "grouped, capped, rotated"],
)
@pytest.mark.parametrize("length", slow_except([13, 16, 17], [13]))
def test_blocks_find_what_a_mask_leaves(config: AttentionConfig, length: int) -> None:
    attention = Attention(config, 8, key=jax.random.key(0))
    relative = RelativeBias(
        RelativeBuckets(num_buckets=8, max_distance=6), num_heads=4, key=jax.random.key(1)
    )
    x = jax.random.normal(jax.random.key(2), (3, length, 8))
    segments = SEGMENTS[:, :length]
    places = jnp.arange(length)
    positions = jnp.broadcast_to(places, segments.shape)
    window = SlidingWindow(left=RADIUS, right=RADIUS)
    whole = attention(
        x,
        attention.project_keys_values(x, positions),
        positions=positions,
        mask=combine_masks(segment_mask(segments, segments), window_mask(places, places, window)),
        bias=relative(places, places, length, bidirectional=True),
    )
    blocked = local_attention(
        attention,
        x,
        segments,
        block_length=RADIUS + 1,
        positions=positions,
        bias=relative(*indices_in_blocks(RADIUS + 1), 3 * (RADIUS + 1), bidirectional=True),
    )
    real = np.asarray(segments) > 0
    np.testing.assert_allclose(blocked[real], whole[real], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("window", "length", "blocks"),
    [
        (SlidingWindow(left=3, right=3), 13, 4),
        (SlidingWindow(left=3, right=3), 12, None),
        (SlidingWindow(left=3), 99, None),
        (None, 99, None),
    ],
    ids=["long", "short", "one-sided", "all"],
)
def test_blocks_are_for_long_sequences_and_windows_to_both_sides(
    window: SlidingWindow | None, length: int, blocks: int | None
) -> None:
    assert block_length(window, length, jnp.ones((1, length), jnp.int32)) == blocks
    assert block_length(window, length, None) is None


TINY = LongT5Config(
    vocab_size=8,
    model_dim=8,
    mlp_dim=8,
    num_heads=2,
    head_dim=4,
    num_encoder_layers=2,
    num_decoder_layers=1,
    local_radius=7,
    task="encoding",
)


def test_memory_grows_with_the_length_and_not_with_its_square() -> None:
    graphdef, shapes, _ = parameters.abstract(TINY)

    def encode(params, tokens):
        return parameters.merge(graphdef, params)(Batch(encoder_input_tokens=tokens)).encoder_output

    def num_bytes(length: int) -> int:
        tokens = jax.ShapeDtypeStruct((1, length), jnp.int32)
        used = jax.jit(encode).lower(shapes, tokens).compile().memory_analysis()
        assert used is not None
        return used.temp_size_in_bytes

    assert num_bytes(8192) < 2.2 * num_bytes(4096)


def test_layers_that_share_relative_positions_must_see_equally_far() -> None:
    def block(window: SlidingWindow | None) -> BlockConfig:
        attention = AttentionConfig(num_heads=1, head_dim=4, window=window)
        return BlockConfig(
            model_dim=4, attention=attention, feed_forward=FeedForwardConfig(mlp_dim=4, activation="relu")
        )

    blocks = (block(None), block(SlidingWindow(left=2, right=2)))
    with pytest.raises(ValueError, match="must see equally far"):
        StackConfig(blocks=blocks, relative_positions=RelativeBuckets())
    StackConfig(blocks=blocks)
