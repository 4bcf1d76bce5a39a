"""Memory from one batch of training to the next: segment recurrence.

Dai et al. 2019, Transformer-XL, https://arxiv.org/abs/1901.02860, §3.2.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from t5x_like.batch import Batch


class Memory(NamedTuple):
    """Inputs of each block at the last places of every row, and the places that its continuation may see.

    Those are the places of the row's last example, back to where it began; padding is none of them.
    """

    states: Float[Array, "N B P D"]
    real: Bool[Array, "B P"]


@runtime_checkable
class ModelWithMemory(Protocol):
    """A model that may have a memory; called with one, it returns the next in ``Predictions.memory``."""

    def new_memory(self, num_rows: int) -> Memory | None: ...


def start_memory(states: Float[Array, "N B P D"]) -> Memory:
    """A memory in which there is nothing to look at yet."""
    return Memory(states, jnp.zeros(states.shape[1:3], bool))


def recall_memory(memory: Memory | None, batch: Batch) -> Memory | None:
    """The memory of rows that continue; the others, and all where no row continues, start with an empty one."""
    if memory is None:
        return None
    goes_on = jnp.zeros(len(memory.real), bool) if batch.continues is None else batch.continues > 0
    return memory._replace(real=memory.real & goes_on[:, None])


def memory_mask_of(memory: Memory, segment_ids: Int[Array, "B L"] | None) -> Bool[Array, "B 1 #L P"]:
    """True where a token may look at a place of the memory: only a row's first example goes on."""
    places_B11P = memory.real[:, None, None, :]
    return places_B11P if segment_ids is None else places_B11P & (segment_ids == 1)[:, None, :, None]


def visible_after(memory: Memory, segment_ids: Int[Array, "B L"]) -> Bool[Array, "B P"]:
    """The visible places of the next memory, after those of ``segment_ids`` have entered it."""
    last_B1 = jnp.max(segment_ids, axis=1, keepdims=True)
    entered = (segment_ids == last_B1) & (segment_ids > 0)
    # A second example has begun: the first, which the memory is about, won't go on.
    before = memory.real & (last_B1 <= 1)
    return jnp.concatenate([before, entered], axis=1)[:, -memory.real.shape[1] :]


def join_memory_mask(
    mask: Bool[Array, "B 1 #L L"] | None,
    memory_mask: Bool[Array, "B 1 #L P"] | None,
    *,
    length: int,
    past: int,
) -> Bool[Array, "B 1 #L M"] | None:
    """One mask of the memory's places and then the segment's own; what has no mask is seen by all."""
    if mask is None and memory_mask is None:
        return None
    some = mask if memory_mask is None else memory_mask
    assert some is not None
    num_rows = len(some)
    own = jnp.ones((num_rows, 1, 1, length), bool) if mask is None else mask
    before = jnp.ones((num_rows, 1, 1, past), bool) if memory_mask is None else memory_mask
    num_queries = max(own.shape[2], before.shape[2])
    parts = [jnp.broadcast_to(part, (num_rows, 1, num_queries, part.shape[3])) for part in (before, own)]
    return jnp.concatenate(parts, axis=-1)
