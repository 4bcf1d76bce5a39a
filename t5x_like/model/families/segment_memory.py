"""Memory from one training batch to the next: segment recurrence (Dai et al. 2019, §3.2).

Transformer-XL, https://arxiv.org/abs/1901.02860.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from t5x_like.batch import Batch


class Memory(NamedTuple):
    """Memory of a batch's rows.

    Attributes:
      states: Inputs of each block at the last P positions of every row.
      real: True at positions that the row's continuation may attend to: those of its last example, without padding.
    """

    states: Float[Array, "N B P D"]
    real: Bool[Array, "B P"]


@runtime_checkable
class ModelWithMemory(Protocol):
    """A model that may have a memory; called with one, it returns the following one in ``Predictions.memory``."""

    def new_memory(self, num_rows: int) -> Memory | None:
        """Return the memory before the first batch; ``None`` for a configuration without one."""
        ...


def start_memory(states: Float[Array, "N B P D"]) -> Memory:
    """Return a memory in which no position is visible yet."""
    return Memory(states, jnp.zeros(states.shape[1:3], bool))


def recall_memory(memory: Memory | None, batch: Batch) -> Memory | None:
    """Return the memory with rows hidden that don't continue those of the batch before.

    Args:
      memory: Memory after the batch before; None if there was none.
      batch: Rows to read, with ``continues``.

    Raises:
      ValueError: The memory has another number of rows than the batch.
    """
    if memory is None:
        return None
    tokens = batch.encoder_input_tokens if batch.decoder_input_tokens is None else batch.decoder_input_tokens
    if len(memory.real) != len(tokens):
        raise ValueError(
            f"the memory has {len(memory.real)} rows and the batch has {len(tokens)}, and each row continues that of "
            f"the batch before; give a batch of {len(memory.real)} rows, or begin with new_memory({len(tokens)})"
        )
    continues = jnp.zeros(len(memory.real), bool) if batch.continues is None else batch.continues > 0
    return memory._replace(real=memory.real & continues[:, None])


def memory_mask_of(memory: Memory, segment_ids: Int[Array, "B L"] | None) -> Bool[Array, "B 1 #L P"]:
    """Return True where a token may attend to the memory: only a row's first example continues it.

    Args:
      memory: Memory before these rows.
      segment_ids: Numbers of a row's examples; None for one example.
    """
    visible_B11P = memory.real[:, None, None, :]
    return visible_B11P if segment_ids is None else visible_B11P & (segment_ids == 1)[:, None, :, None]


def visible_after(memory: Memory, segment_ids: Int[Array, "B L"]) -> Bool[Array, "B P"]:
    """Return the visible positions of the memory after a batch has entered it.

    Args:
      memory: Memory with the batch.
      segment_ids: Numbers of a row's examples; 0 for padding.
    """
    last_B1 = jnp.max(segment_ids, axis=1, keepdims=True)
    entered = (segment_ids == last_B1) & (segment_ids > 0)
    # Where a second example has begun, the first, which the memory belongs to, has ended.
    before = memory.real & (last_B1 <= 1)
    return jnp.concatenate([before, entered], axis=1)[:, -memory.real.shape[1] :]


def join_memory_mask(
    mask: Bool[Array, "B 1 #L L"] | None,
    memory_mask: Bool[Array, "B 1 #L P"] | None,
    *,
    length: int,
    past: int,
) -> Bool[Array, "B 1 #L M"] | None:
    """Concatenate the masks of the memory's keys and the segment's own.

    Args:
      mask: Mask of the segment's keys; ``None`` for all visible.
      memory_mask: Mask of the memory's keys; ``None`` for all visible.
      length: Number of the segment's keys.
      past: Number of the memory's keys.
    """
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


def memory_for(batch: Batch, memory: Memory | None) -> Memory | None:
    """Return the memory to call a model with: none if the batch doesn't say which rows continue.

    Args:
      batch: Rows to read.
      memory: Memory after the batch before.
    """
    return None if batch.continues is None else memory
