"""What decoding remembers, so that each new token costs one step and not a whole pass.

Shape letters here: J beams of an input, one after another among the rows; without beam search J is 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from t5x_like.model.layers.attention import KeysValues


class LayerCache(NamedTuple):
    """One layer's memory; stacked over layers it is scan data, with a leading layers axis on every array."""

    own: KeysValues  # [B * J, max_length, H, K], filled up to the current position
    encoded: KeysValues | None  # [B, M, H, K], what cross-attention looks at, once for all beams of an input


class DecoderCache(NamedTuple):
    """A decoder's memory after some tokens."""

    layers: LayerCache  # every array with a leading N
    encoded_mask: Bool[Array, "B 1 1 M"] | None
    position: Int[Array, ""]  # of the next token, the same for all rows


def write_at(cache: KeysValues, new: KeysValues, position: Int[Array, ""]) -> KeysValues:
    """Puts the keys and values of one token, [B, 1, H, K], at ``position``."""
    return jax.tree.map(
        lambda old, one: jax.lax.dynamic_update_slice_in_dim(old, one.astype(old.dtype), position, axis=1),
        cache,
        new,
    )


def reorder(cache: DecoderCache, origins: Int[Array, "B J"]) -> DecoderCache:
    """The cache in which beam ``j`` of input ``b`` is that input's former beam ``origins[b, j]``.

    Only what a beam has written itself moves: beams stay with their input, and so does what they look at.
    """
    # Input by input, so that a cache that is spread over devices needs no exchange between them.
    choose = jax.vmap(lambda beams, which: jnp.take(beams, which, axis=1, mode="clip"), (1, 0), 1)

    def move(array: Array) -> Array:
        beams_NBJ = array.reshape(array.shape[0], origins.shape[0], -1, *array.shape[2:])
        return choose(beams_NBJ, origins).reshape(array.shape[0], -1, *array.shape[2:])

    return cache._replace(layers=cache.layers._replace(own=jax.tree.map(move, cache.layers.own)))
