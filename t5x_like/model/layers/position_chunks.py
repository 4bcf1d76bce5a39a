"""Work on a few positions of each row at a time, for results that would take too much memory at once."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import PyTree


def map_position_chunks(
    function: Callable[..., PyTree], arrays: tuple[jax.Array, ...], length: int
) -> PyTree:
    """Apply ``function`` to chunks of positions, one after the other, and join what it returns.

    Args:
      function: Takes chunks of ``arrays``, and returns a tree of arrays [B, length, ...].
      arrays: Arrays [B, L, ...]; padded with zeros to a multiple of ``length``.
      length: Positions of a chunk.

    Returns:
      The tree with arrays [B, L, ...].
    """
    num_rows, num_positions = arrays[0].shape[:2]
    length = min(length, num_positions)

    def chunks_of(rows: jax.Array) -> jax.Array:
        rows = jnp.pad(rows, ((0, 0), (0, -num_positions % length), *((0, 0),) * (rows.ndim - 2)))
        return jnp.moveaxis(rows.reshape(num_rows, -1, length, *rows.shape[2:]), 1, 0)

    chunks = tuple(chunks_of(each) for each in arrays)
    results = jax.lax.scan(lambda _, chunk: (None, function(*chunk)), None, chunks)[1]
    return jax.tree.map(
        lambda each: jnp.moveaxis(each, 0, 1).reshape(num_rows, -1, *each.shape[3:])[:, :num_positions],
        results,
    )
