"""Local attention whose cost grows linearly with the length (Guo et al. 2022, §3.1.1).

https://arxiv.org/abs/2112.07916. Tokens are cut into blocks one longer than the window's radius. A block's queries
attend to keys of three blocks, their own and its neighbors, as far as window and segments allow.

Shape letters here: N blocks of all rows, S places in a block, T places in three.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.model.layers.attention import Attention, KeysValues
from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.masks import MASKED, SlidingWindow


class GlobalKeysValues(NamedTuple):
    """Keys and values that all queries of a row may attend to next to their neighbors.

    Attributes:
      keys_values: Keys and values [B, M, G, K].
      mask: ``False`` prevents attention.
      bias: Added to scores.
    """

    keys_values: KeysValues
    mask: Bool[Array, "B 1 L M"]
    bias: Float[Array, "B H L M"]


def block_length(
    window: SlidingWindow | None, length: int, segment_ids: Int[Array, "B L"] | None
) -> int | None:
    """Return the length of blocks; ``None`` where full attention costs less, or the mask is more than segments.

    Args:
      window: Window of the layer; None for full attention.
      length: Tokens of a row.
      segment_ids: 0 for padding; None if there is another mask.
    """
    if window is None or segment_ids is None or window.left != window.right:
        return None
    return window.left + 1 if length > 3 * (window.left + 1) else None


def indices_in_blocks(length: int) -> tuple[Int[Array, " L"], Int[Array, " M"]]:
    """Return places of a block's queries and of its keys, counted from the first key."""
    return length + jnp.arange(length), jnp.arange(3 * length)


def local_attention(
    attention: Attention,
    x: Float[Array, "B L D"],
    segment_ids: Int[Array, "B L"],
    *,
    block_length: int,
    positions: Int[Array, "B L"] | None = None,
    bias: Float[Array, "..."] | None = None,
    global_keys_values: GlobalKeysValues | None = None,
    dropout_rate: float = 0.0,
    dropout_key: Key[Array, ""] | None = None,
) -> Float[Array, "B L D"]:
    """Attend to keys of the same segment less than ``block_length`` places away.

    Args:
      attention: Projections and scale.
      x: Inputs of the layer.
      segment_ids: Segment of each token; 0 is padding.
      block_length: Length of blocks, one more than the window's radius.
      positions: Positions of the tokens, which rotary attention needs.
      bias: Added to scores between ``indices_in_blocks``; broadcasts to [B, H, block_length, 3 * block_length].
      global_keys_values: Further keys and values for all queries.
      dropout_rate: Dropout of attention weights.
      dropout_key: ``None`` for no dropout.
    """
    global_keys_values = _with_prefix(attention, x, global_keys_values)
    queries_BLHK, own = attention.queries(x, positions), attention.project_keys_values(x, positions)
    keys, values = (_with_neighbors(part.astype(x.dtype), block_length) for part in own)
    scores = attention.scores(_in_blocks(queries_BLHK, block_length), keys)
    scores = scores if bias is None else scores + bias
    scores = jnp.where(_mask(segment_ids, block_length), scores, MASKED)
    num_neighbors = scores.shape[-1]
    if global_keys_values is not None:
        (global_keys, global_values), global_mask, global_bias = global_keys_values
        global_BHLM = attention.scores(queries_BLHK, global_keys.astype(x.dtype)) + global_bias
        global_BHLM = jnp.where(global_mask, global_BHLM, MASKED)
        scores = jnp.concatenate([scores, _rows_in_blocks(global_BHLM, block_length)], axis=-1)
    weights = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
    weights = dropout(weights, dropout_rate, dropout_key, shared_dim=2)
    averages = attention.combine_values(weights[..., :num_neighbors], values)
    if global_keys_values is not None:
        # Values are the same for all blocks: they are not copied to each.
        global_weights = _rows_of_blocks(weights[..., num_neighbors:], len(x))
        global_averages = attention.combine_values(global_weights, global_values.astype(x.dtype))
        averages = averages + _in_blocks(global_averages, block_length)
    return attention.out(averages.reshape(len(x), -1, averages.shape[-1])[:, : x.shape[1]])


def _with_prefix(
    attention: Attention, x: Float[Array, "B L D"], further: GlobalKeysValues | None
) -> GlobalKeysValues | None:
    """Add the layer's prefix to the keys and values that all queries attend to."""
    prefix = attention.prefix_keys_values(len(x))
    if prefix is None:
        return further
    num_rows, length, num_prefix = *x.shape[:2], prefix.keys.shape[1]
    own = GlobalKeysValues(
        KeysValues(*(each.astype(x.dtype) for each in prefix)),
        jnp.ones((num_rows, 1, length, num_prefix), bool),
        jnp.zeros((num_rows, attention.config.num_heads, length, num_prefix), jnp.float32),
    )
    if further is None:
        return own
    joined = zip(own.keys_values, further.keys_values, strict=True)
    return GlobalKeysValues(
        KeysValues(*(jnp.concatenate([first, then.astype(x.dtype)], axis=1) for first, then in joined)),
        jnp.concatenate([own.mask, further.mask], axis=-1),
        jnp.concatenate([own.bias, further.bias], axis=-1),
    )


def _mask(segment_ids: Int[Array, "B L"], block_length: int) -> Bool[Array, "N 1 S T"]:
    queries = _in_blocks(segment_ids, block_length, fill=-2)
    keys = _with_neighbors(segment_ids, block_length, fill=-1)
    from_index, to_index = indices_in_blocks(block_length)
    near = jnp.abs(to_index[None, :] - from_index[:, None]) < block_length
    return ((queries[:, :, None] == keys[:, None, :]) & near[None])[:, None]


def _in_blocks(x: Array, length: int, fill: int = 0) -> Array:
    """Cut [B, L, …] to [B * blocks, length, …], the blocks of a row one after another."""
    return _padded(x, 0, -x.shape[1] % length, fill).reshape(-1, length, *x.shape[2:])


def _with_neighbors(x: Array, length: int, fill: int = 0) -> Array:
    """Cut [B, L, …] to [B * blocks, 3 * length, …]: each block between its neighbors."""
    blocks = _padded(x, length, length + -x.shape[1] % length, fill)
    blocks = blocks.reshape(len(x), -1, length, *x.shape[2:])
    three = jnp.concatenate([blocks[:, :-2], blocks[:, 1:-1], blocks[:, 2:]], axis=2)
    return three.reshape(-1, *three.shape[2:])


def _rows_in_blocks(scores: Float[Array, "B H L M"], length: int) -> Float[Array, "N H S M"]:
    blocks = _in_blocks(jnp.moveaxis(scores, 1, 2), length)
    return jnp.moveaxis(blocks, 2, 1)


def _rows_of_blocks(scores: Float[Array, "N H S M"], batch_size: int) -> Float[Array, "B H L M"]:
    rows = jnp.moveaxis(scores, 1, 2)
    rows = rows.reshape(batch_size, -1, *rows.shape[2:])
    return jnp.moveaxis(rows, 1, 2)


def _padded(x: Array, before: int, after: int, fill: int) -> Array:
    return jnp.pad(x, ((0, 0), (before, after), *((0, 0),) * (x.ndim - 2)), constant_values=fill)
