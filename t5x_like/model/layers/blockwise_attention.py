"""Attention in blocks of queries and keys, whose memory grows linearly with the length.

Scores of one pair of blocks exist at a time: a running maximum and sum normalize them (Milakov and Gimelshein 2018,
https://arxiv.org/abs/1805.02867), and the backward pass computes them again (Dao et al. 2022,
https://arxiv.org/abs/2205.14135). Biases and masks are made for each pair from what they depend on.

Shape letters here: J heads share keys and values of one of the G groups; P keys of a learned prefix.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from t5x_like.model.layers.masks import MASKED, AttentionMask, SlidingWindow
from t5x_like.model.layers.positions import DistanceBias
from t5x_like.model.layers.relative_attention import shift

# Longest block of queries and of keys.
BLOCK_LENGTH = 512


@dataclass(frozen=True, kw_only=True)
class _Blocks:
    """Sizes of one attention, known when it is compiled.

    Attributes:
      query_length: Queries of a block.
      key_length: Keys of a block.
      num_keys: Keys, those of the prefix included.
      num_prefix: Keys of the prefix, which are the first and visible to all queries.
      causal: See ``AttentionMask``.
      window: See ``AttentionMask``.
      pairs: Numbers of the blocks of queries and keys between which there is attention.
      scale: Multiplies scores.
      soft_cap: See ``scale_and_cap``.
    """

    query_length: int
    key_length: int
    num_keys: int
    num_prefix: int
    causal: bool
    window: SlidingWindow | None
    pairs: tuple[tuple[int, int], ...]
    scale: float
    soft_cap: float | None


class _Sides(NamedTuple):
    """Inputs without a gradient.

    Attributes:
      mask: Arrays of the mask, padded to whole blocks, and ``None`` for what is in ``_Blocks``.
      keep: Factor of each head's weight of a key: 0 where dropout drops it.
    """

    mask: AttentionMask
    keep: Float[Array, "B H M"] | None


def blockwise_attention(
    queries: Float[Array, "B L H K"],
    keys: Float[Array, "B PM G K"],
    values: Float[Array, "B PM G K"],
    *,
    mask: AttentionMask,
    bias: DistanceBias | None,
    keep: Float[Array, "B H PM"] | None,
    num_prefix: int,
    scale: float = 1.0,
    soft_cap: float | None = None,
) -> Float[Array, "B L H K"]:
    """Return each query's weighted average of values.

    Args:
      queries: Queries, whose places count from 0.
      keys: Keys of the prefix, then others, whose places count from 0.
      values: Values of the keys.
      mask: Mask between queries and the keys after the prefix.
      bias: Added to scores of the keys after the prefix.
      keep: Factor of each weight after the softmax, for dropout.
      num_prefix: Number of keys of the prefix.
      scale: Multiplies scores.
      soft_cap: See ``scale_and_cap``.
    """
    (_, length, num_heads, head_dim), num_groups = queries.shape, keys.shape[2]
    query_length, key_length = min(BLOCK_LENGTH, length), min(BLOCK_LENGTH, keys.shape[1])
    num_query_blocks, num_key_blocks = -(-length // query_length), -(-keys.shape[1] // key_length)
    blocks = _Blocks(
        query_length=query_length,
        key_length=key_length,
        num_keys=keys.shape[1],
        num_prefix=num_prefix,
        causal=mask.causal,
        window=mask.window,
        pairs=visible_pairs(
            mask, range(0, length, query_length), range(-num_prefix, keys.shape[1] - num_prefix, key_length)
        ),
        scale=scale,
        soft_cap=soft_cap,
    )

    def pad_queries(array: Array, axis: int = 1) -> Array:
        return _padded(array, axis, 0, num_query_blocks * query_length - length)

    def pad_keys(array: Array, axis: int = 1, prefix: int = 0) -> Array:
        return _padded(array, axis, prefix, num_key_blocks * key_length - array.shape[axis] - prefix)

    sides = _Sides(
        # A flag would become an array; it is in ``blocks``.
        mask=_map_axes(mask, pad_queries, partial(pad_keys, prefix=num_prefix))._replace(
            causal=None,  # pyright: ignore[reportArgumentType]
            window=None,
        ),
        keep=None if keep is None else pad_keys(keep, 2),
    )
    grouped = pad_queries(queries).reshape(len(queries), -1, num_groups, num_heads // num_groups, head_dim)
    margin = query_length + key_length + num_prefix  # of places that are padding or prefix
    by_distance = None if bias is None else _padded(bias.values, 1, margin, margin)
    averages: Array = _attend(blocks, grouped, pad_keys(keys), pad_keys(values), by_distance, sides)
    return averages.reshape(len(queries), -1, num_heads, head_dim)[:, :length]


def visible_pairs(mask: AttentionMask, queries: range, keys: range) -> tuple[tuple[int, int], ...]:
    """Return the numbers of blocks of queries and keys between which there is attention, whatever the batch contains.

    Args:
      mask: Mask between queries and keys.
      queries: Place of each block's first query, with the length of blocks as its step.
      keys: The same of keys; places below 0 belong to a prefix that all queries see.
    """

    def may_see(query: int, key: int) -> bool:
        return key < 0 or mask.may_see(range(query, query + queries.step), range(key, key + keys.step))

    return tuple(
        (query_block, key_block)
        for query_block, query in enumerate(queries)
        for key_block, key in enumerate(keys)
        if may_see(query, key)
    )


def _map_axes(
    mask: AttentionMask, of_queries: Callable[[Array, int], Array], of_keys: Callable[[Array, int], Array]
) -> AttentionMask:
    """Apply a function of an array and its axis to all axes of queries, and one to all axes of keys."""

    def mapped(function: Callable[[Array, int], Array], array: Array | None, axis: int = 1) -> Array | None:
        return array if array is None or array.shape[axis] == 1 else function(array, axis)

    return mask._replace(
        query_segment_ids=mapped(of_queries, mask.query_segment_ids),
        key_segment_ids=mapped(of_keys, mask.key_segment_ids),
        query_ranks=mapped(of_queries, mask.query_ranks),
        key_ranks=mapped(of_keys, mask.key_ranks),
        prefix=mapped(of_keys, mask.prefix),
        allowed=mapped(of_keys, mapped(of_queries, mask.allowed, -2), -1),
    )


def scale_and_cap(scores: Float[Array, "..."], scale: float, soft_cap: float | None) -> Float[Array, "..."]:
    """Return ``scale * scores``, and with a cap ``soft_cap * tanh(scale * scores / soft_cap)``."""
    if scale != 1.0:
        scores = scores * scale
    return scores if soft_cap is None else soft_cap * jnp.tanh(scores / soft_cap)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(
    blocks: _Blocks, queries: Array, keys: Array, values: Array, bias: Array | None, sides: _Sides
) -> Float[Array, "B L G J K"]:
    return _forward(blocks, queries, keys, values, bias, sides)[0]


def _forward(
    blocks: _Blocks, queries: Array, keys: Array, values: Array, bias: Array | None, sides: _Sides
) -> tuple[Array, Any]:
    """Return averages, and what the backward pass needs."""
    batch_size, length, num_groups, num_shared, _ = queries.shape

    def body(carry: tuple[Array, Array, Array], pair: Array) -> tuple[tuple[Array, Array, Array], None]:
        query, key = pair[0] * blocks.query_length, pair[1] * blocks.key_length
        query_block = partial(_cut, start=query, length=blocks.query_length)
        key_block, value_block = _at_keys(blocks, key, keys, values)
        scores = _scores(blocks, query, key, sides)(query_block(queries, 1), key_block, bias)
        largest, total, average = query_block(carry[0], 3), query_block(carry[1], 3), query_block(carry[2], 1)
        new_largest = jnp.maximum(largest, scores.max(-1))
        weights = jnp.exp(scores - new_largest[..., None])
        fading = jnp.exp(largest - new_largest)
        total = total * fading + weights.sum(-1)
        weights = _dropped(blocks, key, weights, sides).astype(values.dtype)
        found = jnp.einsum("bgjlm,bmgk->blgjk", weights, value_block, preferred_element_type=jnp.float32)
        average = average * jnp.moveaxis(fading, 3, 1)[..., None] + found
        parts = (new_largest, 3), (total, 3), (average, 1)
        return tuple(  # pyright: ignore[reportReturnType]
            jax.lax.dynamic_update_slice_in_dim(whole, part, query, axis)
            for whole, (part, axis) in zip(carry, parts, strict=True)
        ), None

    rows = (batch_size, num_groups, num_shared, length)
    start = jnp.full(rows, -jnp.inf), jnp.zeros(rows), jnp.zeros(queries.shape, jnp.float32)
    (largest, total, average), _ = jax.lax.scan(body, start, _pairs(blocks, queries))
    average = (average / jnp.moveaxis(total, 3, 1)[..., None]).astype(queries.dtype)
    return average, (queries, keys, values, bias, sides, largest, total, average)


def _backward(blocks: _Blocks, kept: Any, gradient: Array) -> tuple[Array | None, ...]:
    queries, keys, values, bias, sides, largest, total, average = kept
    gradient = gradient.astype(queries.dtype)
    # What the softmax takes off each score's gradient: the average of its row.
    common = jnp.einsum("blgjk,blgjk->bgjl", gradient, average, preferred_element_type=jnp.float32)

    def body(sums: Any, pair: Array) -> tuple[Any, None]:
        query, key = pair[0] * blocks.query_length, pair[1] * blocks.key_length
        query_block = partial(_cut, start=query, length=blocks.query_length)
        key_block, value_block = _at_keys(blocks, key, keys, values)
        scores, pull = jax.vjp(_scores(blocks, query, key, sides), query_block(queries, 1), key_block, bias)
        rows = query_block(largest, 3), query_block(total, 3), query_block(common, 3)
        row_largest, row_total, row_common = (each[..., None] for each in rows)
        weights = jnp.exp(scores - row_largest) / row_total
        out = query_block(gradient, 1)
        kept_weights = _dropped(blocks, key, weights, sides).astype(values.dtype)
        by_weight = jnp.einsum("blgjk,bmgk->bgjlm", out, value_block, preferred_element_type=jnp.float32)
        by_score = weights * (_dropped(blocks, key, by_weight, sides) - row_common)
        by_query, by_key, by_bias = pull(by_score)
        by_value = jnp.einsum("bgjlm,blgjk->bmgk", kept_weights, out, preferred_element_type=jnp.float32)
        new = (by_query, query), (by_key, key), (by_value, key)
        added = [_add_at(whole, part, start) for whole, (part, start) in zip(sums[:3], new, strict=True)]
        return (*added, None if by_bias is None else sums[3] + by_bias), None

    start = jax.tree.map(lambda like: jnp.zeros(like.shape, jnp.float32), (queries, keys, values, bias))
    sums, _ = jax.lax.scan(body, start, _pairs(blocks, queries))
    given = (queries, keys, values, bias)
    return (*jax.tree.map(lambda like, total: total.astype(like.dtype), given, sums), None)


_attend.defvjp(_forward, _backward)


def _pairs(blocks: _Blocks, queries: Array) -> Array:
    """Return the pairs of blocks, as numbers that seem to depend on the queries.

    Masks depend on these numbers. JAX would otherwise take all masks of a stack's layers out of the scan over layers,
    and keep them.
    """
    return jax.lax.optimization_barrier((jnp.asarray(blocks.pairs), queries))[0]


def _scores(
    blocks: _Blocks, query: Array, key: Array, sides: _Sides
) -> Callable[[Array, Array, Array | None], Float[Array, "B G J L M"]]:
    """Return the function that scores the block of queries at ``query`` and keys at ``key``, masked."""

    def scores(queries: Array, keys: Array, bias: Array | None) -> Array:
        found = jnp.einsum("blgjk,bmgk->bgjlm", queries, keys, preferred_element_type=jnp.float32)
        found = scale_and_cap(found, blocks.scale, blocks.soft_cap)
        key_places = key - blocks.num_prefix + jnp.arange(blocks.key_length)
        if bias is not None:
            added = _bias(blocks, query, key, bias) * (key_places >= 0)[None, None]
            found = found + added.reshape(1, *found.shape[1:3], *added.shape[1:])
        mask = _mask(blocks, query, key, key_places, sides.mask)
        found = found if mask is None else jnp.where(mask[:, :, None], found, MASKED)
        if blocks.num_keys % blocks.key_length == 0:
            return found
        # Padding of the last block has no weight, not even in a row where everything is masked.
        is_key = key_places < blocks.num_keys - blocks.num_prefix
        return jnp.where(is_key[None, None, None, None], found, -jnp.inf)

    return scores


def _bias(blocks: _Blocks, query: Array, key: Array, bias: Float[Array, "H R"]) -> Float[Array, "H L M"]:
    """Return the bias between blocks, which depends on the distance alone."""
    num_distances = blocks.query_length + blocks.key_length - 1
    smallest = (key - blocks.num_prefix) - (query + blocks.query_length - 1)
    near = _cut(bias, 1, start=smallest + bias.shape[1] // 2, length=num_distances)
    rows = jnp.broadcast_to(near[None, :, None], (1, len(near), blocks.query_length, num_distances))
    return shift(rows, num_keys=blocks.key_length)[0]


def _mask(
    blocks: _Blocks, query: Array, key: Array, key_places: Array, mask: AttentionMask
) -> Bool[Array, "..."] | None:
    """Return the mask between blocks."""
    of_queries = partial(_cut, start=query, length=blocks.query_length)
    of_keys = partial(_cut, start=key, length=blocks.key_length)
    part = _map_axes(mask, of_queries, of_keys)._replace(causal=blocks.causal, window=blocks.window)
    part = part.between(query + jnp.arange(blocks.query_length), key_places)
    return part if part is None or not blocks.num_prefix else part | (key_places < 0)[None, None, None]


def _dropped(blocks: _Blocks, key: Array, weights: Float[Array, "B G J L M"], sides: _Sides) -> Array:
    """Apply dropout to weights, or to their gradients."""
    if sides.keep is None:
        return weights
    keep = _cut(sides.keep, 2, start=key, length=blocks.key_length)
    return weights * keep.reshape(*weights.shape[:3], 1, -1)


def _at_keys(blocks: _Blocks, key: Array, *arrays: Array) -> list[Array]:
    return [_cut(array, 1, start=key, length=blocks.key_length) for array in arrays]


def _cut(array: Array, axis: int = 1, *, start: Array, length: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(array, start, length, axis)


def _add_at(whole: Array, part: Array, start: Array) -> Array:
    before = _cut(whole, start=start, length=part.shape[1])
    return jax.lax.dynamic_update_slice_in_dim(whole, before + part.astype(whole.dtype), start, axis=1)


def _padded(array: Array, axis: int, before: int, after: int) -> Array:
    widths = [(0, 0)] * array.ndim
    widths[axis] = (before, after)
    return jnp.pad(array, widths)
