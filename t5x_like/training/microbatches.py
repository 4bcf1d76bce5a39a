"""Gradients of a batch that is too large for memory, summed over its parts."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from t5x_like.batch import Batch
from t5x_like.model.families.segment_memory import Memory
from t5x_like.training.metrics import Totals

# Name of the trained model among those that have a memory; a method's frozen models have names of their own.
MODEL = "model"

Memories = Mapping[str, Memory | None]  # by model; ``None`` for what has none


class Microbatch(NamedTuple):
    """A part of a batch, or a whole one.

    Attributes:
      batch: Rows with targets.
      weights: Weights of their targets, shaped as in the batch.
      memories: Memories of the rows before, by model.
      outputs: Outputs of frozen models that were computed before, by model and name.
    """

    batch: Batch
    weights: jax.Array
    memories: Memories
    outputs: Mapping[str, Mapping[str, jax.Array]] = {}


def accumulate(
    gradient: Callable[[PyTree, Microbatch, jax.Array], PyTree],
    trained: PyTree,
    whole: Microbatch,
    dropout_key: jax.Array,
    *,
    num_parts: int,
    num_filled: jax.Array | None = None,
) -> tuple[PyTree, Totals, Memories]:
    """Return the gradients, the sums to log and the memories of ``whole``, computed in ``num_parts`` parts.

    Args:
      gradient: ``(trained, microbatch, dropout_key) -> (gradients, (totals, memories))``.
      trained: Weights to differentiate by.
      whole: Batch to cut; ``num_parts`` divides its rows.
      dropout_key: Key that is split into one for each part.
      num_parts: 1 leaves the batch whole.
      num_filled: Number of the first parts to compute, int32 []; the others are empty. ``None`` computes all.
    """
    if num_parts == 1:
        gradients, (totals, memories) = gradient(trained, whole, dropout_key)
        return gradients, totals, memories

    split = partial(split_rows, num_parts=num_parts)

    def body(sums: PyTree, part: tuple[Microbatch, jax.Array]) -> tuple[PyTree, Memories]:
        gradients, (totals, memories) = gradient(trained, *part)
        return jax.tree.map(jnp.add, sums, (gradients, totals)), memories

    batch, weights, outputs = jax.tree.map(split, (whole.batch, whole.weights, dict(whole.outputs)))
    parts = (
        Microbatch(batch, weights, _of_memories(split, whole.memories), outputs),
        jax.random.split(dropout_key, num_parts),
    )
    first = jax.eval_shape(gradient, trained, *jax.tree.map(lambda array: array[0], parts))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), (first[0], first[1][0]))
    if num_filled is not None:
        gradients, totals = jax.lax.fori_loop(
            0, num_filled, lambda k, sums: body(sums, jax.tree.map(lambda array: array[k], parts))[0], nothing
        )
        return gradients, totals, {}
    (gradients, totals), memories = jax.lax.scan(body, nothing, parts)
    return gradients, totals, _of_memories(join_rows, memories)


def split_rows(array: jax.Array, axis: int = 0, *, num_parts: int) -> jax.Array:
    """Return the parts of an array, [P, ...]. Each takes every P-th row, so that its rows stay spread over the mesh.

    Args:
      array: Array of the whole batch.
      axis: Axis of the rows.
      num_parts: Number of parts P.
    """
    parts = array.reshape(*array.shape[:axis], -1, num_parts, *array.shape[axis + 1 :])
    return jnp.moveaxis(parts, axis + 1, 0)


def join_rows(parts: jax.Array, axis: int = 0) -> jax.Array:
    """Return the array that ``split_rows`` has cut.

    Args:
      parts: Parts of an array, [P, ...].
      axis: Axis of the rows in the array.
    """
    array = jnp.moveaxis(parts, 0, axis + 1)
    return array.reshape(*array.shape[:axis], -1, *array.shape[axis + 2 :])


def _of_memories(change: Callable[..., jax.Array], memories: Memories) -> Memories:
    return {
        name: memory and Memory(states=change(memory.states, axis=1), real=change(memory.real))
        for name, memory in memories.items()
    }
