"""Gradients of a batch that is too large for memory, summed over its parts."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.model.families.family import Predictions
from t5x_like.model.families.segment_memory import Memory
from t5x_like.training.metrics import Totals


class Memories(NamedTuple):
    """The model's memory and its teacher's; ``None`` for what has none."""

    own: Memory | None = None
    teacher: Memory | None = None


class Part(NamedTuple):
    """Rows of a batch, the weights of their targets, the memories of the rows before, a teacher's predictions."""

    batch: Batch
    weights: jax.Array
    memories: Memories
    recorded: Predictions | None = None


def accumulate(
    gradient: Callable[[Any, Part, jax.Array], Any],
    trained: Any,
    whole: Part,
    dropout_key: jax.Array,
    *,
    num_parts: int,
    num_filled: jax.Array | None = None,
) -> tuple[Any, Totals, Memories]:
    """Return the gradients, the sums to log and the memories of ``whole``, computed in ``num_parts`` parts.

    Args:
      gradient: ``(trained, part, dropout_key) -> (gradients, (totals, memories))``.
      trained: the weights to differentiate by.
      whole: the batch; ``num_parts`` divides its rows.
      dropout_key: split into one for each part.
      num_parts: 1 leaves the batch whole.
      num_filled: number of the first parts to compute, int32 []; the others are empty. ``None`` computes all.
    """
    if num_parts == 1:
        gradients, (totals, memories) = gradient(trained, whole, dropout_key)
        return gradients, totals, memories

    def split(array: jax.Array, axis: int = 0) -> jax.Array:
        # Every part takes each k-th row, so that the rows of a part stay spread over the devices of the mesh.
        parts = array.reshape(*array.shape[:axis], -1, num_parts, *array.shape[axis + 1 :])
        return jnp.moveaxis(parts, axis + 1, 0)

    def join(parts: jax.Array, axis: int = 0) -> jax.Array:
        array = jnp.moveaxis(parts, 0, axis + 1)
        return array.reshape(*array.shape[:axis], -1, *array.shape[axis + 2 :])

    def body(sums: Any, part: tuple[Part, jax.Array]) -> tuple[Any, Memories]:
        gradients, (totals, memories) = gradient(trained, *part)
        return jax.tree.map(jnp.add, sums, (gradients, totals)), memories

    batch, weights, recorded = jax.tree.map(split, (whole.batch, whole.weights, whole.recorded))
    parts = (
        Part(batch, weights, _of_memories(split, whole.memories), recorded),
        jax.random.split(dropout_key, num_parts),
    )
    first = jax.eval_shape(gradient, trained, *jax.tree.map(lambda array: array[0], parts))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), (first[0], first[1][0]))
    if num_filled is not None:
        gradients, totals = jax.lax.fori_loop(
            0, num_filled, lambda k, sums: body(sums, jax.tree.map(lambda array: array[k], parts))[0], nothing
        )
        return gradients, totals, Memories()
    (gradients, totals), memories = jax.lax.scan(body, nothing, parts)
    return gradients, totals, _of_memories(join, memories)


def _of_memories(change: Callable[..., jax.Array], memories: Memories) -> Memories:
    return Memories(
        *(each and Memory(states=change(each.states, axis=1), real=change(each.real)) for each in memories)
    )
