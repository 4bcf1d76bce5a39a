"""Exact search: inner products of queries with all vectors, a block at a time, on all devices."""

import functools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t5x_like.partitioning.mesh import MESH_AXES

_MOST_QUERIES = 1024  # at once: their scores of a block are in memory


class Nearest(NamedTuple):
    """Rows with the highest scores, the best first; of equal scores the earlier row is first.

    Attributes:
      scores: Inner products, float32 [Q, K].
      rows: Positions among all vectors, int32 [Q, K].
    """

    scores: np.ndarray
    rows: np.ndarray


def search_exactly(
    queries: np.ndarray, blocks: Iterable[np.ndarray], k: int, *, mesh: Mesh | None = None
) -> Nearest:
    """Return the ``k`` vectors with the highest inner product with each query.

    Blocks are read once for 1,024 queries, and one block is on the devices at a time. Products are computed in float32.

    Args:
      queries: Vectors, float32 [Q, D].
      blocks: Vectors, float32 or float16 [N, D] each; an iterable that can be repeated.
      k: Number of rows for each query.
      mesh: Devices over which each block is split; one device if not given.

    Raises:
      ValueError: A vector is not finite.
    """
    parts = [
        _search(queries[start : start + _MOST_QUERIES], blocks, k, mesh)
        for start in range(0, len(queries), _MOST_QUERIES)
    ]
    return Nearest(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _search(queries: np.ndarray, blocks: Iterable[np.ndarray], k: int, mesh: Mesh | None) -> Nearest:
    num_queries = len(queries)
    padded = np.zeros((1 << (num_queries - 1).bit_length(), queries.shape[1]), np.float32)
    padded[:num_queries] = queries
    best = Nearest(np.full((len(padded), k), -np.inf, np.float32), np.full((len(padded), k), -1, np.int32))
    scores, rows = jnp.asarray(best.scores), jnp.asarray(best.rows)
    are_finite = []
    for first, vectors, count in _equal_blocks(blocks, mesh):
        scores, rows, is_finite = _merge(scores, rows, padded, vectors, first, count)
        are_finite.append(is_finite)
    are_finite = [bool(each) for each in are_finite]
    if not all(are_finite):
        raise ValueError(
            f"block {are_finite.index(False)} of the vectors has values that are not finite; build the index again"
        )
    return Nearest(np.asarray(scores)[:num_queries], np.asarray(rows)[:num_queries])


def _equal_blocks(
    blocks: Iterable[np.ndarray], mesh: Mesh | None
) -> Iterator[tuple[int, jax.Array | np.ndarray, int]]:
    """Yield first row, vectors and number of rows of each block, padded to one shape that the devices divide."""
    first, num_rows = 0, 0
    for block in blocks:
        count = len(block)
        devices = 1 if mesh is None else mesh.size
        num_rows = max(num_rows, -(-count // devices) * devices)
        if count < num_rows:
            block = np.concatenate([block, np.zeros((num_rows - count, block.shape[1]), block.dtype)])
        sharding = None if mesh is None else NamedSharding(mesh, PartitionSpec(MESH_AXES))
        yield first, block if sharding is None else jax.device_put(block, sharding), count
        first += count


@functools.partial(jax.jit, donate_argnums=(0, 1))
def _merge(
    scores: jax.Array,
    rows: jax.Array,
    queries: jax.Array,
    vectors: jax.Array,
    first: jax.Array | int,
    count: jax.Array | int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the best of the rows before and a block's, and whether the block is finite.

    Args:
      scores: Scores of the rows before, [Q, K].
      rows: Their positions, [Q, K].
      queries: Vectors of queries, [Q, D].
      vectors: Vectors of the block, [N, D].
      first: Position of the block's first row.
      count: Number of the block's rows that are real.
    """
    block = vectors.astype(jnp.float32)
    products = jnp.einsum("qd,nd->qn", queries, block, precision=jax.lax.Precision.HIGHEST)
    indices = jnp.arange(block.shape[0], dtype=jnp.int32)
    products = jnp.where(indices[None] < count, products, -jnp.inf)
    k = scores.shape[1]
    # top_k prefers earlier entries among equal ones, and earlier blocks come first.
    new_scores, new_indices = jax.lax.top_k(products, min(k, block.shape[0]))
    both_scores = jnp.concatenate([scores, new_scores], axis=1)
    both_rows = jnp.concatenate([rows, new_indices.astype(jnp.int32) + first], axis=1)
    best_scores, chosen = jax.lax.top_k(both_scores, k)
    return best_scores, jnp.take_along_axis(both_rows, chosen, axis=1), jnp.all(jnp.isfinite(block))
