"""Rolling caches: KV caches whose rows begin at different times, so that new rows can take the places of ended ones.

All rows write the token of a time into one slot: that of the time, modulo the number of slots. A row sees the slots
that were written since its start. Shape letters here are those of ``kv_cache``; J new rows, E tokens of an encoder.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from t5x_like.model.layers.kv_cache import DecoderCache, KeyValueCache, LayerCache
from t5x_like.model.layers.masks import causal_mask
from t5x_like.model.layers.self_attention import AttentionContext


def can_roll(cache: PyTree) -> bool:
    """Return whether the rows of a cache may begin at different times.

    Args:
      cache: Cache of a model after its prompts, or its shapes.
    """
    if not isinstance(cache, DecoderCache):
        return False
    return cache.block_positions is None and cache.token_types is None and cache.mask_token is None


def rolling_context(cache: DecoderCache) -> AttentionContext:
    """Return what a stack reads next to the next token of each row.

    Args:
      cache: Rolling cache.
    """
    assert cache.starts is not None
    times = _times(cache.index, cache.num_slots)
    return AttentionContext(
        mask=(times[None] >= cache.starts[:, None])[:, None, None],
        positions=(cache.index - cache.starts)[:, None],
        index=cache.index,
        times=times,
        beam_indices=cache.beam_indices,
    )


def step_context(cache: DecoderCache, num_rows: int) -> AttentionContext:
    """Return what an encoder-decoder's decoder reads next to the next token of each row, rolling or not.

    Args:
      cache: Cache after the tokens before it.
      num_rows: Number of rows.
    """
    if cache.starts is not None:
        context = rolling_context(cache)
    else:
        context = AttentionContext(
            mask=causal_mask(cache.index[None], jnp.arange(cache.num_slots)),
            positions=jnp.broadcast_to(cache.index, (num_rows, 1)),
            index=cache.index,
            beam_indices=cache.beam_indices,
        )
    return context._replace(encoded_mask=cache.encoded_mask)


def empty_rolling(shapes: DecoderCache) -> DecoderCache:
    """Return a rolling cache without rows.

    Args:
      shapes: Shapes of a cache of the model.
    """

    def empty(shape: Any) -> Array:
        return jnp.zeros((*shape.shape[:-4], 0, *shape.shape[-3:]), shape.dtype)

    mask = shapes.encoded_mask
    return DecoderCache(
        layers=jax.tree.map(empty, shapes.layers),
        index=jnp.zeros((), jnp.int32),
        beam_indices=jnp.zeros((0, 1, 1), jnp.int32),
        encoded_mask=None if mask is None else empty(mask),
        starts=jnp.zeros(0, jnp.int32),
    )


def resize_rolling(
    cache: DecoderCache, rows: Int[Array, " R"], *, num_slots: int, num_encoded: int
) -> DecoderCache:
    """Return a cache of other sizes; all that rows see must have room in it.

    Args:
      cache: Rolling cache.
      rows: Former index of each row; any number for rows that nothing is read from.
      num_slots: Slots for tokens.
      num_encoded: Tokens of the encoder.
    """
    # The token before the next one is the last in the cache.
    times, before = _times(cache.index - 1, num_slots), cache.num_slots

    def keep(each: Array, axis: int) -> Array:
        if not each.shape[axis]:
            return jnp.zeros((*each.shape[:axis], len(rows), *each.shape[axis % each.ndim + 1 :]), each.dtype)
        return jnp.take(each, rows, axis=axis, mode="clip")

    def resize(layer: LayerCache) -> LayerCache:
        own = jax.tree.map(lambda each: jnp.take(keep(each, -4), times % before, axis=-2), layer.own)
        if layer.encoded is None:
            return LayerCache(own, None)
        return LayerCache(
            own, jax.tree.map(lambda each: _of_length(keep(each, -4), num_encoded, -2), layer.encoded)
        )

    mask = cache.encoded_mask
    assert cache.starts is not None
    return cache._replace(
        layers=tuple(map(resize, cache.layers)),
        beam_indices=keep(cache.beam_indices, 0),
        encoded_mask=None if mask is None else _of_length(keep(mask, 0), num_encoded, -1),
        starts=keep(cache.starts, 0),
    )


def join_rolling(cache: DecoderCache, new: DecoderCache, rows: Int[Array, " J"]) -> DecoderCache:
    """Return a cache in which new rows are in the places of others.

    Args:
      cache: Rolling cache.
      new: Cache after prompts, with room for one token; its slots and encoded tokens have room in the rolling cache.
      rows: Index of each new row; those beyond the last are left out.
    """
    assert cache.starts is not None
    num_read = max(new.num_slots - 2, 0)  # all of a prompt but its last token, which the first step reads
    slots = (cache.index - num_read + jnp.arange(num_read)) % cache.num_slots
    lengths = jnp.zeros(len(rows), jnp.int32) if new.positions is None else new.positions[:, num_read]

    def write(old: Array, some: Array) -> Array:
        some = jnp.moveaxis(some[..., :num_read, :], (-4, -2), (0, 1))
        return old.at[..., rows[:, None], :, slots[None], :].set(some.astype(old.dtype), mode="drop")

    def replace(old: Array, some: Array) -> Array:
        return old.at[..., rows, :, :, :].set(_of_length(some, old.shape[-2], -2), mode="drop")

    def join(old: LayerCache, some: LayerCache) -> LayerCache:
        own = KeyValueCache(*map(write, old.own, some.own)) if num_read else old.own
        if old.encoded is None or some.encoded is None:
            return LayerCache(own, None)
        return LayerCache(own, KeyValueCache(*map(replace, old.encoded, some.encoded)))

    mask = cache.encoded_mask
    if mask is not None:
        new_mask = new.encoded_mask
        assert new_mask is not None
        mask = mask.at[rows].set(_of_length(new_mask, mask.shape[-1], -1), mode="drop")
    return cache._replace(
        layers=tuple(map(join, cache.layers, new.layers)),
        encoded_mask=mask,
        starts=cache.starts.at[rows].set(cache.index - lengths, mode="drop"),
    )


def _times(last: Int[Array, ""], num_slots: int) -> Int[Array, " M"]:
    """Return the time at which each slot is written last, if that of ``last`` is the latest."""
    return last - (last - jnp.arange(num_slots)) % num_slots


def _of_length(each: Array, length: int, axis: int) -> Array:
    """Return an array that is cut or filled with zeros along an axis."""
    kept = jax.lax.slice_in_dim(each, 0, min(each.shape[axis], length), axis=axis)
    pad = [(0, 0)] * each.ndim
    pad[axis] = (0, length - kept.shape[axis])
    return jnp.pad(kept, pad)
