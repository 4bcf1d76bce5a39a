"""Noise masks and replacements in TensorFlow: with T5's seeds they give T5's own masks and tokens, id for id."""

from collections.abc import Sequence

import seqio
import tensorflow as tf

from t5x_like.text.objectives.noise import (
    IidNoise,
    MaskTokens,
    Noise,
    RegularNoise,
    Replacement,
    TargetFormat,
)

Seeds = Sequence[tf.Tensor]  # int64 [2] each
_T5_RESERVED_IDS = 3  # padding, end and unknown are never drawn as random words


def noise_mask(noise: Noise, length: tf.Tensor, seeds: Seeds) -> tf.Tensor:
    """Draw a noise mask, bool [length].

    Args:
      noise: Distribution of the noise.
      length: Number of tokens, int32 scalar.
      seeds: Two seeds.
    """
    if isinstance(noise, IidNoise):
        return tf.random.stateless_uniform(tf.reshape(length, [1]), seeds[0]) < noise.noise_density
    if isinstance(noise, RegularNoise):
        return regular_spans(length, seeds, noise)
    mask = random_spans(length, seeds, noise.noise_density, noise.mean_noise_span_length)
    return roll(mask, seeds) if noise.roll else mask


def random_spans(
    length: tf.Tensor, seeds: Seeds, noise_density: float, mean_noise_span_length: float
) -> tf.Tensor:
    """Draw ``noise_masks.random_spans`` in TensorFlow: the first seed places the noise, the second the rest.

    Args:
      length: Number of tokens, int32 scalar.
      seeds: Two seeds.
      noise_density: Share of noise tokens.
      mean_noise_span_length: Mean length of a noise span.
    """
    padded = tf.maximum(length, 2)
    num_noise = tf.cast(tf.round(tf.cast(padded, tf.float32) * noise_density), tf.int32)
    num_noise = tf.clip_by_value(num_noise, 1, padded - 1)
    num_spans = tf.cast(tf.round(tf.cast(num_noise, tf.float32) / mean_noise_span_length), tf.int32)
    num_spans = tf.minimum(tf.maximum(num_spans, 1), tf.minimum(num_noise, padded - num_noise))
    noise = _cut_at_random(num_noise, num_spans, seeds[0])
    kept = _cut_at_random(padded - num_noise, num_spans, seeds[1])
    lengths = tf.reshape(tf.stack([kept, noise], axis=1), [-1])
    return tf.repeat(tf.range(2 * num_spans) % 2 == 1, lengths)[:length] & (noise_density > 0.0)


def _cut_at_random(num_items: tf.Tensor, num_parts: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    gaps = tf.range(num_items - 1)
    is_cut = seqio.stateless_shuffle(gaps < num_parts - 1, seed)
    edges = tf.concat([[0], tf.boolean_mask(gaps, is_cut) + 1, [num_items]], axis=0)
    return edges[1:] - edges[:-1]


def roll(mask: tf.Tensor, seeds: Seeds) -> tf.Tensor:
    """Apply ``noise_masks.rolled`` by an offset drawn from a combination of both seeds.

    Args:
      mask: Noise mask, bool [L].
      seeds: Two seeds of TensorFlow.
    """
    seed = tf.stack([seeds[0][0] + seeds[1][1], seeds[0][1] - seeds[1][0]])
    most = tf.maximum(tf.size(mask), 2)
    return tf.roll(mask, tf.random.stateless_uniform([], seed, maxval=most, dtype=tf.int32), axis=0)


def regular_spans(length: tf.Tensor, seeds: Seeds, noise: RegularNoise) -> tf.Tensor:
    """Apply ``RegularNoise.draw`` in TensorFlow: the first seed draws the spans' length, the second the offset.

    Args:
      length: Number of tokens, int32 scalar.
      seeds: Two seeds.
      noise: Distribution of the noise.
    """
    span = tf.random.stateless_uniform(
        [], seeds[0], minval=noise.shortest, maxval=noise.longest + 1, dtype=tf.int32
    )
    period = tf.cast(tf.round(tf.cast(span, tf.float32) / noise.noise_density), tf.int32)
    offset = tf.random.stateless_uniform([], seeds[1], maxval=period, dtype=tf.int32)
    return (tf.range(length) + offset) % period < span


def prefix(length: tf.Tensor, seeds: Seeds, noise_density: float) -> tf.Tensor:
    """Draw the number of tokens in the prefix of ``PrefixLM``, int32.

    Args:
      length: Number of tokens, int32 scalar.
      seeds: One seed, int64 [1, 2].
      noise_density: Average fraction of the tokens to predict; see ``PrefixLM``.
    """
    most = length - 1
    shares = tf.cast(tf.round((1 - 2 * noise_density) * tf.cast(most, tf.float32)), tf.int32)
    least = tf.minimum(most, tf.maximum(shares, 1))
    return tf.random.stateless_uniform([], seeds[0], minval=least, maxval=most + 1, dtype=tf.int32)


def replace_noise(
    tokens: tf.Tensor,
    is_noise: tf.Tensor,
    becomes: Replacement | TargetFormat | MaskTokens,
    vocab_size: int,
    seeds: Seeds,
) -> tf.Tensor:
    """Replace noise tokens as ``Denoising`` does.

    Args:
      tokens: Token ids, [length].
      is_noise: bool [length].
      becomes: Kind of replacement.
      vocab_size: Number of ids; sentinels are the highest.
      seeds: Two seeds.
    """
    first_sentinel = vocab_size - 1
    shape = tf.shape(tokens)
    if becomes == "text":
        return tokens
    if becomes == "dropped":
        return tf.boolean_mask(tokens, tf.logical_not(is_noise))
    if becomes in ("unique_sentinels", "one_sentinel"):
        return replace_spans(tokens, is_noise, first_sentinel, unique=becomes == "unique_sentinels")
    if becomes == "shuffled":
        moved = seqio.stateless_shuffle(tf.boolean_mask(tokens, is_noise), seeds[0])
        return tf.tensor_scatter_nd_update(tokens, tf.where(is_noise), moved)
    if becomes == "gathered":
        indices = tf.random.stateless_uniform(shape, seeds[0], maxval=tf.size(tokens), dtype=tf.int32)
        return tf.where(is_noise, tf.gather(tokens, indices), tokens)
    if becomes == "random":
        return tf.where(is_noise, _random_words(shape, seeds[0], vocab_size, tokens.dtype), tokens)
    assert not isinstance(becomes, str)
    is_random = tf.random.stateless_uniform(shape, seeds[0]) < becomes.random_rate
    words = _random_words(shape, seeds[1], vocab_size, tokens.dtype)
    masks = tf.fill(shape, tf.cast(first_sentinel, tokens.dtype))
    return tf.where(is_noise, tf.where(is_random, words, masks), tokens)


def _random_words(shape: tf.Tensor, seed: tf.Tensor, vocab_size: int, dtype: tf.DType) -> tf.Tensor:
    return tf.random.stateless_uniform(shape, seed, minval=_T5_RESERVED_IDS, maxval=vocab_size, dtype=dtype)


def replace_spans(
    tokens: tf.Tensor, is_span: tf.Tensor, first_sentinel: int, *, unique: bool = True
) -> tf.Tensor:
    """Replace each span of a sequence with one sentinel.

    Args:
      tokens: Token ids, [length].
      is_span: bool [length].
      first_sentinel: Id of the first sentinel.
      unique: Count sentinels down from span to span; otherwise all are equal.
    """
    continues = is_span & tf.concat([[False], is_span[:-1]], axis=0)
    starts = is_span & tf.logical_not(continues)
    order = tf.cumsum(tf.cast(starts, tokens.dtype)) if unique else tf.ones_like(tokens)
    return tf.boolean_mask(tf.where(starts, first_sentinel + 1 - order, tokens), tf.logical_not(continues))
