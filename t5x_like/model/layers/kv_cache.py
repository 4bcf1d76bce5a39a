"""Keys and values that decoding keeps, so that each new token costs one step and not a whole pass.

Shape letters here: J beams of an input, one after another among the rows; without beam search J is 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from t5x_like.model.layers.attention import KeysValues


class LayerCache(NamedTuple):
    """One layer's memory; stacked over equal layers it is scan data, with a leading axis on every array."""

    own: KeysValues  # [B * J, max_length, G, K], filled up to the current index
    encoded: KeysValues | None  # [B, M, G, K], what cross-attention looks at, once for all beams of an input


class DecoderCache(NamedTuple):
    """A decoder's memory after some tokens.

    Places in the cache are not positions: a prompt may be padded. Where nothing says otherwise they are the same.
    """

    layers: tuple[LayerCache, ...]  # for each slot of the stack, every array with a leading axis
    index: Int[Array, ""]  # the place of the next token, the same for all rows
    encoded_mask: Bool[Array, "B 1 1 M"] | None = None
    key_mask: Bool[Array, "R max_length"] | None = None  # the places that hold a real token, or will
    positions: Int[Array, "R max_length"] | None = None  # of the token at each place
    block_positions: Int[Array, "R max_length"] | None = None  # likewise, inside a blank


def write_at(cache: KeysValues, new: KeysValues, index: Int[Array, ""]) -> KeysValues:
    """Puts keys and values of tokens, [B, L, G, K], at the places from ``index`` on."""
    return jax.tree.map(
        lambda old, some: jax.lax.dynamic_update_slice_in_dim(old, some.astype(old.dtype), index, axis=1),
        cache,
        new,
    )


def reorder(cache: DecoderCache, origins: Int[Array, "B J"]) -> DecoderCache:
    """The cache in which beam ``j`` of input ``b`` is that input's former beam ``origins[b, j]``.

    Only what a beam has written itself moves: beams stay with their input, and so does what they look at.
    """
    # Input by input, so that a cache that is spread over devices needs no exchange between them.
    choose = jax.vmap(lambda beams, which: jnp.take(beams, which, axis=0, mode="clip"))

    def move(rows: Array) -> Array:
        beams_BJ = rows.reshape(origins.shape[0], -1, *rows.shape[1:])
        return choose(beams_BJ, origins).reshape(-1, *rows.shape[1:])

    layers = tuple(layer._replace(own=jax.tree.map(jax.vmap(move), layer.own)) for layer in cache.layers)
    rows = {name: getattr(cache, name) for name in ("key_mask", "positions", "block_positions")}
    return cache._replace(layers=layers, **jax.tree.map(move, rows))


def beam_rows(origins: Int[Array, "B J"], *, num_rows: int) -> Int[Array, " R"]:
    """The rows, of ``num_rows`` former beams of each input one after another, that the new beams come from."""
    num_inputs = origins.shape[0]
    return (origins + num_rows // num_inputs * jnp.arange(num_inputs)[:, None]).reshape(-1)
