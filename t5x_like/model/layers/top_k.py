"""Indices of the highest scores, in ways that XLA's CPU compiler makes fast."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

_CHUNK_LENGTH = 128


def argmax(scores: Float[Array, "*dims V"]) -> Int[Array, "*dims"]:
    """Return ``jnp.argmax`` over the last axis; the last index for scores that are not a number.

    XLA computes ``jnp.argmax`` element by element on CPUs. Two plain reductions take a fifth of its time.
    """
    best = scores.max(-1, keepdims=True)
    indices = jax.lax.broadcasted_iota(jnp.int32, scores.shape, scores.ndim - 1)
    return jnp.where(scores == best, indices, scores.shape[-1] - 1).min(-1)


def top_k(scores: Float[Array, "B V"], count: int) -> tuple[Float[Array, "B C"], Int[Array, "B C"]]:
    """Return ``jax.lax.top_k`` of each row; of equal scores the first ones.

    The highest scores are in as many chunks with the highest maxima, so all others are read once for their maximum.

    Args:
      scores: Scores of each row.
      count: Number of highest scores to return.
    """
    num_rows, num_scores = scores.shape
    num_chunks = -(-num_scores // _CHUNK_LENGTH)
    if num_chunks <= 2 * count:
        return _top_k(scores, count)
    padded = jnp.pad(
        scores, ((0, 0), (0, num_chunks * _CHUNK_LENGTH - num_scores)), constant_values=-jnp.inf
    ).reshape(num_rows, num_chunks, _CHUNK_LENGTH)
    chunks_BC = jnp.sort(
        _top_k(padded.max(-1), count)[1]
    )  # in order, so that of equal scores the first is found
    candidates = jnp.take_along_axis(padded, chunks_BC[..., None], axis=1).reshape(num_rows, -1)
    best_BC, places_BC = _top_k(candidates, count)
    chosen_BC = jnp.take_along_axis(chunks_BC, places_BC // _CHUNK_LENGTH, axis=1)
    return best_BC, chosen_BC * _CHUNK_LENGTH + places_BC % _CHUNK_LENGTH


def _top_k(scores: Array, count: int) -> tuple[Array, Array]:
    # Without barriers XLA joins its slices with later ones, misses that this is a top-k and sorts all scores. One
    # barrier for both aborts the process where several devices have the same rows (jaxlib 0.10.2).
    best, indices = jax.lax.top_k(scores, count)
    return jax.lax.optimization_barrier(best), jax.lax.optimization_barrier(indices)
