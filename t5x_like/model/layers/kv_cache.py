"""KV cache: keys and values that decoding keeps, so that each new token costs one step and not a whole pass.

Shape letters here: J beams of an input, one after another among the rows; without beam search J is 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from t5x_like.model.layers.attention import KeysValues

# Fields of a cache with a value for each row and place.
_OF_ROWS = ("key_mask", "positions", "block_positions", "token_types")


class HeadsCache(NamedTuple):
    """Keys and values with heads before places. Attention reads them as they lie, where places first are transposed."""

    keys: Float[Array, "*layers R G M K"]
    values: Float[Array, "*layers R G M K"]

    @classmethod
    def of(cls, keys_values: KeysValues) -> "HeadsCache":
        """Return the cache of keys and values."""
        return cls(*(jnp.swapaxes(each, -3, -2) for each in keys_values))

    @property
    def keys_values(self) -> KeysValues:
        """Keys and values, as attention takes them."""
        return KeysValues(*(jnp.swapaxes(each, -3, -2) for each in self))


class LayerCache(NamedTuple):
    """Cache of one layer; of stacked layers every array has a leading layers axis.

    Attributes:
      own: Self-attention's keys and values of B * J rows and max_length places, filled up to the current index.
      encoded: Cross-attention's keys and values of B rows, shared by all beams of an input.
    """

    own: HeadsCache
    encoded: HeadsCache | None

    @property
    def num_places(self) -> int:
        """Places for tokens."""
        return self.own.keys.shape[-2]


class DecoderCache(NamedTuple):
    """State of a decoder after some tokens. Places in the cache differ from positions where prompts are padded.

    Attributes:
      layers: Caches for each slot of the stack, every array with a leading layers axis.
      index: Place of the next token, the same for all rows.
      encoded_mask: Mask of cross-attention; ``None`` for all visible.
      key_mask: True at places that hold a real token, or will; ``None`` for all.
      positions: Position of the token at each place; ``None`` where they are the places.
      block_positions: Position inside a masked span of the token at each place (GLM).
      token_types: Type of the token at each place (encoders that write).
      mask_token: Id that an encoder reads at the place of the next token.
    """

    layers: tuple[LayerCache, ...]
    index: Int[Array, ""]
    encoded_mask: Bool[Array, "B 1 1 M"] | None = None
    key_mask: Bool[Array, "R max_length"] | None = None
    positions: Int[Array, "R max_length"] | None = None
    block_positions: Int[Array, "R max_length"] | None = None
    token_types: Int[Array, "R max_length"] | None = None
    mask_token: Int[Array, ""] | None = None


def write_at(cache: HeadsCache, new: KeysValues, index: Int[Array, ""]) -> HeadsCache:
    """Return the cache with keys and values [B, L, G, K] written at the places from ``index`` on."""
    return jax.tree.map(
        lambda old, some: jax.lax.dynamic_update_slice_in_dim(old, some.astype(old.dtype), index, axis=2),
        cache,
        HeadsCache.of(new),
    )


def reorder(cache: DecoderCache, origins: Int[Array, "B J"]) -> DecoderCache:
    """Return the cache in which beam ``j`` of input ``b`` is that input's former beam ``origins[b, j]``.

    There may be more beams than before. Keys and values of the encoder stay: they belong to the input.
    """
    # Input by input, so that a cache that is split over devices needs no exchange between them.
    choose = jax.vmap(lambda beams, which: jnp.take(beams, which, axis=0, mode="clip"))

    def move(rows: Array) -> Array:
        beams_BJ = rows.reshape(origins.shape[0], -1, *rows.shape[1:])
        return choose(beams_BJ, origins).reshape(-1, *rows.shape[1:])

    layers = tuple(layer._replace(own=jax.tree.map(jax.vmap(move), layer.own)) for layer in cache.layers)
    rows = {name: getattr(cache, name) for name in _OF_ROWS}
    return cache._replace(layers=layers, **jax.tree.map(move, rows))


def keep_inputs(cache: DecoderCache, inputs: Int[Array, " C"], num_inputs: int) -> DecoderCache:
    """Return the cache of the inputs with the given indices, out of ``num_inputs``."""

    def keep(rows: Array) -> Array:
        return rows.reshape(num_inputs, -1, *rows.shape[1:])[inputs].reshape(-1, *rows.shape[1:])

    layers = jax.tree.map(jax.vmap(keep), cache.layers)
    rows = {name: getattr(cache, name) for name in (*_OF_ROWS, "encoded_mask")}
    return cache._replace(layers=layers, **jax.tree.map(keep, rows))


def arrange_right(real: Bool[Array, "B M"], rows: Shaped[Array, "B T"]) -> Shaped[Array, "B T"]:
    """Move padding to the left, so that all prompts end at the same place. Values beyond the prompt stay.

    Args:
      real: True for real tokens of the prompts.
      rows: Values of each place.
    """
    length = real.shape[1]
    order = jnp.argsort(real, axis=1, stable=True)
    arranged = jnp.take_along_axis(rows[:, :length], order, axis=1)
    return jnp.concatenate([arranged, rows[:, length:]], axis=1)


def beam_rows(origins: Int[Array, "B J"], *, num_rows: int) -> Int[Array, " R"]:
    """Return the indices of former rows that the new beams come from.

    Args:
      origins: Former beam of each new beam.
      num_rows: Number of former rows, the beams of one input after another.
    """
    num_inputs = origins.shape[0]
    return (origins + num_rows // num_inputs * jnp.arange(num_inputs)[:, None]).reshape(-1)


def input_rows(inputs: Int[Array, " C"], *, num_rows: int, num_inputs: int) -> Int[Array, " R"]:
    """Return the indices of the rows of some inputs, all beams of each."""
    num_beams = num_rows // num_inputs
    return (inputs[:, None] * num_beams + jnp.arange(num_beams)[None]).reshape(-1)
