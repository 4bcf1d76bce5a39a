"""What decoding remembers, so that each new token costs one step and not a whole pass."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from t5x_like.model.layers.attention import KeysValues


class LayerCache(NamedTuple):
    """One layer's memory; stacked over layers it is scan data, with a leading layers axis on every array."""

    own: KeysValues  # [B, max_length, H, K], filled up to the current position
    encoded: KeysValues | None  # [B, M, H, K], what cross-attention looks at


class DecoderCache(NamedTuple):
    """A decoder's memory after some tokens."""

    layers: LayerCache  # every array [N, B, …]
    encoded_mask: Bool[Array, "B 1 1 M"] | None
    position: Int[Array, ""]  # of the next token, the same for all rows


def write_at(cache: KeysValues, new: KeysValues, position: Int[Array, ""]) -> KeysValues:
    """Puts the keys and values of one token, [B, 1, H, K], at ``position``."""
    return jax.tree.map(
        lambda old, one: jax.lax.dynamic_update_slice_in_dim(old, one.astype(old.dtype), position, axis=1),
        cache,
        new,
    )


def reorder(cache: DecoderCache, rows: Int[Array, " R"]) -> DecoderCache:
    """The cache whose row ``i`` is the old row ``rows[i]``, for beams that move."""
    mask = cache.encoded_mask
    return DecoderCache(
        layers=jax.tree.map(lambda array: jnp.take(array, rows, axis=1), cache.layers),
        encoded_mask=None if mask is None else jnp.take(mask, rows, axis=0),
        position=cache.position,
    )
