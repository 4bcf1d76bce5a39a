"""Decoders: what a token sees, and one token at a time being the same as all at once."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.decoder import Decoder, DecoderConfig
from t5x_like.model.heads import HeadsConfig, LMHeadConfig, ScoreHeadConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.positions import RelativeBuckets
from t5x_like.model.layers.rotary import Rotary
from t5x_like.model.layers.stack import StackConfig

CLOSE = {"rtol": 0, "atol": 1e-5}
VOCAB, LENGTH, POSITIONS = 23, 10, 12


@dataclasses.dataclass(frozen=True)
class Tiny:
    """A decoder to be built."""

    config: DecoderConfig
    vocab_size: int = VOCAB

    def build(self, key: jax.Array) -> Decoder:
        return Decoder(self.config, key=key)


def block(window: int | None = None, rotary: bool = False) -> BlockConfig:
    return BlockConfig(
        model_dim=16,
        attention=AttentionConfig(
            num_heads=4,
            num_kv_heads=2,
            head_dim=6,
            positions=Rotary(rotated_dim=4) if rotary else None,
            window=None if window is None else SlidingWindow(left=window),
        ),
        feed_forward=FeedForwardConfig(mlp_dim=24, activation="gelu"),
        init=Normal(0.3),
    )


def tiny(*blocks: BlockConfig, **embeddings: Any) -> Tiny:
    return Tiny(
        DecoderConfig(
            embeddings=EmbeddingsConfig(vocab_size=VOCAB, embed_dim=16, stddev=0.5, **embeddings),
            stack=StackConfig(
                blocks=blocks, relative_positions=None if blocks[0].attention.positions else RelativeBuckets()
            ),
            heads=HeadsConfig(
                lm_head=LMHeadConfig(tie_word_embeddings=True),
                pooler=PoolerConfig(pooling="last"),
                scores=(ScoreHeadConfig(name="sequence_classification", input="pooled", num_outputs=3),),
            ),
        )
    )


# Learned and rotated positions at once, a window in every other layer.
ROTATED = tiny(
    block(rotary=True),
    block(rotary=True, window=2),
    positions=LearnedPositions(max_position_embeddings=POSITIONS),
)
# Distances in buckets; two positions for each token.
BLANKS = tiny(
    block(),
    block(),
    positions=LearnedPositions(max_position_embeddings=POSITIONS),
    block_positions=LearnedPositions(max_position_embeddings=POSITIONS),
)


@functools.cache
def built(model: Tiny) -> Decoder:
    graphdef = parameters.abstract(model)[0]
    params = jax.jit(lambda key: parameters.split(model.build(key))[1])(jax.random.key(0))
    return parameters.merge(graphdef, params)


_predict = jax.jit(lambda decoder, batch: decoder(batch))


def predict(model: Tiny, batch: Batch) -> Any:
    return _predict(built(model), batch)


def logits_of(model: Tiny, tokens: np.ndarray, **batch: Any) -> np.ndarray:
    return np.asarray(predict(model, Batch(decoder_input_tokens=tokens, **batch)).logits)[..., :VOCAB]


def random_tokens(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, VOCAB, shape).astype(np.int32)


def changed(tokens: np.ndarray, place: int) -> np.ndarray:
    tokens = tokens.copy()
    tokens[:, place] = tokens[:, place] % (VOCAB - 1) + 1
    return tokens


def seen_from(model: Tiny, place: int, **batch: Any) -> np.ndarray:
    """From which places a change of the token at ``place`` is noticed, in all rows."""
    tokens = random_tokens(3, LENGTH)
    change = np.abs(logits_of(model, tokens, **batch) - logits_of(model, changed(tokens, place), **batch))
    noticed = change.max(-1) > 1e-5
    assert (noticed == noticed[0]).all()
    return noticed[0]


@pytest.mark.parametrize("place", [0, 4, 9])
def test_a_token_is_seen_from_itself_on(place):
    np.testing.assert_array_equal(seen_from(ROTATED, place), np.arange(LENGTH) >= place)


@pytest.mark.parametrize(("place", "first"), [(3, 0), (4, 4), (8, 8)])
def test_a_token_of_the_prefix_is_seen_from_before_it(place, first):
    prefix = np.tile(np.arange(LENGTH) < 4, (3, 1)).astype(np.int32)
    np.testing.assert_array_equal(seen_from(ROTATED, place, prefix=prefix), np.arange(LENGTH) >= first)


def test_an_attention_mask_forbids_what_causality_allows():
    mask = np.tile(np.eye(LENGTH, dtype=bool), (3, 1, 1))
    np.testing.assert_array_equal(seen_from(ROTATED, 4, attention_mask=mask), np.arange(LENGTH) == 4)


def test_windows_count_places_whatever_positions_are_given():
    far_apart = np.tile(5 * np.arange(LENGTH), (3, 1)).astype(np.int32)
    seen = seen_from(tiny(block(rotary=True, window=2)), 3, decoder_positions=far_apart)
    assert np.flatnonzero(seen).tolist() == [3, 4, 5]


def test_padding_changes_nothing_wherever_it_stands():
    tokens = random_tokens(2, 6)
    right = np.pad(tokens, ((0, 0), (0, 4)), constant_values=7)
    is_real = np.tile(np.arange(LENGTH) < 6, (2, 1)).astype(np.int32)
    places = np.tile(np.maximum(np.arange(LENGTH) - 4, 0), (2, 1)).astype(np.int32)
    arrays = {"decoder_segment_ids": is_real, "decoder_positions": np.roll(places, -4, axis=1)}
    after = predict(ROTATED, Batch(decoder_input_tokens=right, **arrays))
    before = predict(
        ROTATED,
        Batch(
            decoder_input_tokens=np.roll(right, 4, axis=1),
            decoder_segment_ids=np.roll(is_real, 4, axis=1),
            decoder_positions=places,
        ),
    )
    other = predict(ROTATED, Batch(decoder_input_tokens=np.where(is_real, right, 3), **arrays))
    np.testing.assert_allclose(after.logits[:, :6], before.logits[:, 4:], **CLOSE)
    np.testing.assert_allclose(after.logits[:, :6], other.logits[:, :6], **CLOSE)
    np.testing.assert_allclose(
        after.heads["sequence_classification"], before.heads["sequence_classification"], **CLOSE
    )


def test_packed_examples_are_as_each_on_its_own():
    one, other = random_tokens(1, 4, seed=1), random_tokens(1, 5, seed=2)
    alone = np.concatenate([np.pad(one, ((0, 0), (0, 6))), np.pad(other, ((0, 0), (0, 5)))])
    places = np.arange(LENGTH)
    expected = logits_of(
        ROTATED,
        alone,
        decoder_segment_ids=np.stack([places < 4, places < 5]).astype(np.int32),
        decoder_positions=np.stack([places, places]).astype(np.int32),
        prefix=np.stack([places < 2, places < 3]).astype(np.int32),
    )
    packed = logits_of(
        ROTATED,
        np.concatenate([one, other, [[0]]], axis=1).astype(np.int32).repeat(2, axis=0),
        decoder_segment_ids=np.array([[1] * 4 + [2] * 5 + [0]] * 2, np.int32),
        decoder_positions=np.array([[*range(4), *range(5), 0]] * 2, np.int32),
        prefix=np.array([[1, 1, 0, 0, 1, 1, 1, 0, 0, 0]] * 2, np.int32),
    )
    np.testing.assert_allclose(packed[0, :4], expected[0, :4], **CLOSE)
    np.testing.assert_allclose(packed[0, 4:9], expected[1, :5], **CLOSE)


@functools.partial(jax.jit, static_argnames=("max_new_tokens", "is_prefix"))
def start(decoder: Decoder, prompts: Any, mask: Any = None, **settings: Any) -> Any:
    return decoder.start_cache(prompts, mask, **settings)


step = jax.jit(lambda decoder, tokens, cache: decoder.decode_step(tokens, cache))


def write(model: Tiny, prompts: np.ndarray, mask: Any, new: np.ndarray, **settings: Any) -> np.ndarray:
    """The logits after the prompts' last token and after each of ``new``, [B, 1 + new, V]."""
    token, cache = start(built(model), prompts, mask, max_new_tokens=LENGTH - prompts.shape[1], **settings)
    logits = []
    for following in [*new.T, None]:
        one, cache = step(built(model), token, cache)
        logits.append(one[:, :VOCAB])
        token = following
    return np.stack(logits, axis=1)


@pytest.mark.parametrize("prompt_length", [1, 6])
def test_one_token_at_a_time_is_the_same_as_all_at_once(prompt_length):
    tokens = random_tokens(2, LENGTH)
    written = write(ROTATED, tokens[:, :prompt_length], None, tokens[:, prompt_length:-1])
    expected = logits_of(ROTATED, tokens)[:, prompt_length - 1 : -1]
    np.testing.assert_allclose(written, expected, **CLOSE)


PADDED = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0, 1, 1, 0, 0, 1], [0, 0, 0, 0, 0, 1]], np.int32)


def unpadded(prompts: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prompts and what follows without the padding, which comes last, [B, 9]; what is real; lengths of prompts."""
    lengths = PADDED.sum(axis=1)
    rows = [
        np.concatenate([prompt[mask == 1], following])
        for prompt, mask, following in zip(prompts, PADDED, new, strict=True)
    ]
    tokens = np.stack([np.pad(row, (0, LENGTH - len(row))) for row in rows])
    is_real = np.arange(LENGTH) < (lengths + new.shape[1])[:, None]
    return tokens, is_real.astype(np.int32), lengths


@pytest.mark.parametrize("is_prefix", [False, True])
def test_prompts_may_be_padded_and_may_be_a_prefix(is_prefix):
    prompts, new = random_tokens(4, 6), random_tokens(4, 3, seed=1)
    prompts = np.where(PADDED, prompts, 0).astype(np.int32)
    written = write(ROTATED, prompts, PADDED, new, is_prefix=is_prefix)
    tokens, is_real, lengths = unpadded(prompts, new)
    prefix = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32) * is_prefix
    expected = logits_of(ROTATED, tokens, decoder_segment_ids=is_real, prefix=prefix)
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(written[row], expected[row, length - 1 : length + 3], **CLOSE)


def test_a_blank_is_written_at_its_own_positions():
    """Of the prompt all but the last token are a prefix; new ones stand where the blank is, and count inside it."""
    prompts, new = random_tokens(4, 6), random_tokens(4, 3, seed=1)
    lengths = PADDED.sum(axis=1)
    places = np.maximum(np.cumsum(PADDED, axis=1) - 1, 0)
    is_last = np.arange(6) == 5
    blank = np.maximum(lengths - 2, 0)[:, None]
    positions = np.concatenate([np.where(is_last, blank, places), np.tile(blank, 4)], axis=1)
    blocks = np.concatenate([np.where(is_last, 1, 0 * places), np.tile([[2, 3, 4, 5]], (4, 1))], axis=1)
    prefix = PADDED * ~is_last
    written = write(
        BLANKS,
        prompts,
        PADDED,
        new,
        prefix=prefix.astype(np.int32),
        positions=positions.astype(np.int32),
        block_positions=blocks.astype(np.int32),
    )
    tokens, is_real, _ = unpadded(prompts, new)
    part_b = np.arange(LENGTH) - lengths[:, None] + 2
    expected = logits_of(
        BLANKS,
        tokens,
        decoder_segment_ids=is_real,
        prefix=(part_b < 1).astype(np.int32),
        decoder_positions=np.where(part_b < 1, np.arange(LENGTH), blank).astype(np.int32),
        block_positions=np.maximum(part_b, 0).astype(np.int32),
    )
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(written[row], expected[row, length - 1 : length + 3], **CLOSE)


def test_beams_take_their_padding_and_positions_along():
    prompts = np.where(PADDED, random_tokens(4, 6), 0).astype(np.int32)
    first, cache = start(built(ROTATED), prompts, PADDED, max_new_tokens=4)
    _, cache = step(built(ROTATED), first, cache)
    beams = built(ROTATED).reorder_cache(cache, jnp.zeros((4, 2), jnp.int32))
    new = random_tokens(4, 2)
    expected = [step(built(ROTATED), new[:, beam], cache)[0] for beam in range(2)]
    got, _ = step(built(ROTATED), new.reshape(-1), beams)
    np.testing.assert_allclose(got.reshape(4, 2, -1), np.stack(expected, axis=1), **CLOSE)


def test_a_prompt_longer_than_the_learned_positions_is_refused():
    with pytest.raises(ValueError, match="are 13 long together, the model has 12 learned positions"):
        built(ROTATED).start_cache(jnp.ones((1, 10), jnp.int32), max_new_tokens=4)


def test_padding_needs_no_learned_positions():
    prompts = jnp.ones((1, 10), jnp.int32)
    mask = (jnp.arange(10) > 3).astype(jnp.int32)[None]
    _, cache = start(built(ROTATED), prompts, mask, max_new_tokens=6)
    assert int(cache.positions[0, -2]) == 10


def test_positions_for_too_few_tokens_are_refused():
    some = jnp.ones((1, 4), jnp.int32)
    with pytest.raises(ValueError, match=r"positions has shape \(1, 4\); give one .* each new one: \(1, 7\)"):
        built(ROTATED).start_cache(some, max_new_tokens=3, positions=some)


def test_a_model_that_fills_blanks_asks_for_their_positions():
    with pytest.raises(ValueError, match="give positions and block_positions"):
        built(BLANKS).start_cache(jnp.ones((1, 4), jnp.int32), max_new_tokens=3)
