"""KV cache: keys and values that decoding keeps, so that each new token costs one step and not a whole pass.

The beams of an input share one row of the cache, and the keys of its prompt. Each slot after the prompt has the keys
of all beams, one after another. Beam search moves no keys: ``beam_indices`` records which of them each beam sees.

Shape letters here: B inputs, J beams of an input, R = B * J rows of tokens, M slots for tokens, N of them that beams
write, P = M - N + N * J keys; without beam search J is 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from t5x_like.model.layers.attention import KeysValues

# Fields of a cache with a value for each row and slot, the same for all beams of an input.
_OF_ROWS = ("key_mask", "positions", "block_positions", "token_types")


class KeyValueCache(NamedTuple):
    """Keys and values, head-major, so that attention needs no transpose."""

    keys: Float[Array, "*layers B G P K"]
    values: Float[Array, "*layers B G P KV"]

    @classmethod
    def of(cls, keys_values: KeysValues) -> "KeyValueCache":
        """Return the cache of keys and values."""
        return cls(*(jnp.swapaxes(each, -3, -2) for each in keys_values))

    @property
    def keys_values(self) -> KeysValues:
        """Keys and values, as attention takes them."""
        return KeysValues(*(jnp.swapaxes(each, -3, -2) for each in self))


class LayerCache(NamedTuple):
    """Cache of one layer; of layers that a scan runs every array has a leading layers axis.

    Attributes:
      own: Self-attention's keys and values, filled up to the current index.
      encoded: Cross-attention's keys and values.
    """

    own: KeyValueCache
    encoded: KeyValueCache | None


class DecoderCache(NamedTuple):
    """State of a decoder after some tokens. Slots of the cache differ from positions where prompts are padded.

    Attributes:
      layers: Caches for each slot of the stack. Slots of the repeating pattern have a leading layers axis. Leading
        layers don't: XLA copies a cache to which the loop over tokens adds one.
      index: Time of the next token, the same for all rows; it is the slot's index unless the cache is rolling.
      beam_indices: Beam whose keys a beam sees at each of the last N slots.
      encoded_mask: Mask of cross-attention; ``None`` for all visible.
      key_mask: True at slots that hold a real token, or will; ``None`` for all.
      positions: Position of the token in each slot; ``None`` where it is the index of the slot.
      block_positions: Position inside a masked span of the token in each slot (GLM).
      token_types: Type of the token in each slot (generative encoders).
      mask_token: Id that an encoder reads in the slot of the next token.
      starts: Time of each row's first token, of a rolling cache (``rolling_cache``).
    """

    layers: tuple[LayerCache, ...]
    index: Int[Array, ""]
    beam_indices: Int[Array, "B J N"]
    encoded_mask: Bool[Array, "B 1 1 E"] | None = None
    key_mask: Bool[Array, "R M"] | None = None
    positions: Int[Array, "R M"] | None = None
    block_positions: Int[Array, "R M"] | None = None
    token_types: Int[Array, "R M"] | None = None
    mask_token: Int[Array, ""] | None = None
    starts: Int[Array, " R"] | None = None

    @property
    def num_slots(self) -> int:
        """Number of slots for tokens."""
        return num_slots(self.layers[0], self.beam_indices)


def one_beam(batch_size: int, length: int) -> Int[Array, "B 1 N"]:
    """Return the ``beam_indices`` before beam search, with ``length`` slots that steps write.

    Args:
      batch_size: Number of inputs.
      length: Number of tokens to write.
    """
    return jnp.zeros((batch_size, 1, length), jnp.int32)


def num_slots(cache: LayerCache, beam_indices: Int[Array, "B J N"]) -> int:
    """Return the number of slots for tokens, which is less than that of keys where there are beams.

    Args:
      cache: Cache of one layer.
      beam_indices: Beam whose keys a beam sees, for each of the last N tokens.
    """
    _, num_beams, length = beam_indices.shape
    return cache.own.keys.shape[-2] - (num_beams - 1) * length


def write_at(
    cache: LayerCache, new: KeysValues, index: Int[Array, ""], beam_indices: Int[Array, "B J N"]
) -> LayerCache:
    """Return the cache of one layer with keys and values [R, L, G, K] written in the slots from ``index`` on.

    Args:
      cache: Cache of one layer.
      new: Keys and values of the new tokens.
      index: Slot of the first new token.
      beam_indices: Beam whose keys a beam sees, for each of the last N tokens.
    """
    num_inputs, num_beams, length = beam_indices.shape
    num_shared = num_slots(cache, beam_indices) - length
    start = index if num_beams == 1 else num_shared + (index - num_shared) * num_beams

    def write(old: Array, some: Array) -> Array:
        some_BJLGK = some.astype(old.dtype).reshape(num_inputs, num_beams, *some.shape[1:])
        some_BGLJK = some_BJLGK.transpose(0, 3, 2, 1, 4)
        return jax.lax.dynamic_update_slice_in_dim(
            old, some_BGLJK.reshape(*some_BGLJK.shape[:2], -1, some.shape[-1]), start, axis=2
        )

    return cache._replace(own=KeyValueCache(*map(write, cache.own, new)))


def between_beams(
    rows: Shaped[Array, "#R #H L M"], beam_indices: Int[Array, "B J N"]
) -> Shaped[Array, "#B #H JL P"]:
    """Return a mask or bias of rows for all queries and keys of an input.

    A bias between different beams has no meaning: only ``visible_beams`` are attended to.

    Args:
      rows: Mask or bias of each row.
      beam_indices: Beam whose keys a beam sees, for each of the last N tokens.
    """
    num_inputs, num_beams, length = beam_indices.shape
    repeated = jnp.repeat(rows[..., -length:], num_beams, axis=-1)
    rows = jnp.concatenate([rows[..., :-length], repeated], axis=-1)
    if len(rows) == 1:
        return jnp.tile(rows, (1, 1, num_beams, 1))
    rows_BJHLP = rows.reshape(num_inputs, num_beams, *rows.shape[1:])
    return rows_BJHLP.swapaxes(1, 2).reshape(num_inputs, rows.shape[1], -1, rows.shape[-1])


def visible_beams(
    beam_indices: Int[Array, "B J N"], *, num_queries: int, num_shared: int
) -> Bool[Array, "B 1 JL P"]:
    """Return True at the prompt's keys and at those that belong to the past of the query's beam.

    Args:
      beam_indices: Beam whose keys each beam sees.
      num_queries: Queries of each beam, one after another.
      num_shared: Keys that all beams share.
    """
    num_inputs, num_beams, _ = beam_indices.shape
    past_BJNJ = beam_indices[..., None] == jnp.arange(num_beams)[None, None, None]
    past_BJP = past_BJNJ.reshape(num_inputs, num_beams, -1)
    visible_BJP = jnp.pad(past_BJP, ((0, 0), (0, 0), (num_shared, 0)), constant_values=True)
    return jnp.repeat(visible_BJP, num_queries, axis=1)[:, None]


def reorder(cache: DecoderCache, origins: Int[Array, "B J"]) -> DecoderCache:
    """Return the cache in which beam ``j`` of input ``b`` is that input's former beam ``origins[b, j]``.

    One beam may become several; later their number stays.

    Args:
      cache: Cache of one or several beams for each input.
      origins: Index of each new beam's former beam.

    Raises:
      ValueError: There are several beams, and would be another number of them.
    """
    num_beams = origins.shape[1]
    _, num_before, length = cache.beam_indices.shape
    if num_before == 1:
        return _with_beams(cache, num_beams)
    if num_before != num_beams:
        raise ValueError(f"{num_before} beams of each input can't become {num_beams}; give as many origins")
    is_past_N = jnp.arange(length) < cache.index - (cache.num_slots - length)
    past_BJN = jnp.take_along_axis(cache.beam_indices, origins[..., None], axis=1, mode="clip")
    own_BJN = jnp.broadcast_to(jnp.arange(num_beams)[None, :, None], past_BJN.shape)
    return cache._replace(beam_indices=jnp.where(is_past_N[None, None], past_BJN, own_BJN))


def _with_beams(cache: DecoderCache, num_beams: int) -> DecoderCache:
    """Return the cache in which each input has ``num_beams`` equal beams instead of one."""
    num_inputs, _, length = cache.beam_indices.shape

    def repeat(keys: Array) -> Array:
        return jnp.concatenate(
            [keys[..., :-length, :], jnp.repeat(keys[..., -length:, :], num_beams, axis=-2)], axis=-2
        )

    def repeat_rows(rows: Array) -> Array:
        return jnp.repeat(rows, num_beams, axis=0)

    indices_BJN = jnp.broadcast_to(jnp.arange(num_beams)[None, :, None], (num_inputs, num_beams, length))
    rows = {name: getattr(cache, name) for name in _OF_ROWS}
    return cache._replace(
        layers=tuple(layer._replace(own=jax.tree.map(repeat, layer.own)) for layer in cache.layers),
        beam_indices=indices_BJN,
        **jax.tree.map(repeat_rows, rows),
    )


def keep_inputs(cache: DecoderCache, inputs: Int[Array, " C"], num_inputs: int) -> DecoderCache:
    """Return the cache of some of the inputs.

    Args:
      cache: Cache of all inputs.
      inputs: Indices of the inputs to keep.
      num_inputs: Number of inputs in the cache.
    """

    def keep(rows: Array) -> Array:
        return rows.reshape(num_inputs, -1, *rows.shape[1:])[inputs].reshape(-1, *rows.shape[1:])

    layers = jax.tree.map(lambda heads: jnp.take(heads, inputs, axis=-4), cache.layers)
    rows = {name: getattr(cache, name) for name in (*_OF_ROWS, "encoded_mask", "beam_indices")}
    return cache._replace(layers=layers, **jax.tree.map(keep, rows))


def arrange_right(real: Bool[Array, "B M"], rows: Shaped[Array, "B T"]) -> Shaped[Array, "B T"]:
    """Move padding to the left, so that all prompts end in the same slot. Values beyond the prompt stay.

    Args:
      real: True for real tokens of the prompts.
      rows: Values of each slot.
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
    """Return the indices of the rows of some inputs, all beams of each.

    Args:
      inputs: Indices of inputs.
      num_rows: Rows of all inputs' beams.
      num_inputs: Number of inputs.
    """
    num_beams = num_rows // num_inputs
    return (inputs[:, None] * num_beams + jnp.arange(num_beams)[None]).reshape(-1)
