"""Virtual tokens before the tokens of a stream (prompt tuning, Lester et al. 2021).

https://arxiv.org/abs/2104.08691. Their ids are negative: ``Embeddings.prompt`` has the vector of each.
"""

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Int

from t5x_like.batch import Batch


def virtual_ids(num_rows: int, length: int) -> Int[Array, "B P"]:
    """Return the ids of the virtual tokens of every row: -1, -2 and so on.

    Args:
      num_rows: Rows of the batch.
      length: Number of virtual tokens.
    """
    return jnp.broadcast_to(-1 - jnp.arange(length), (num_rows, length))


def prepend(first: int | Array, rows: Array, length: int) -> Array:
    """Return rows [B, L] with columns before them.

    Args:
      first: Value of the new columns.
      rows: Array of token ids, masks or positions.
      length: Number of new columns.
    """
    return jnp.concatenate([jnp.broadcast_to(first, (len(rows), length)).astype(rows.dtype), rows], axis=1)


def with_virtual_tokens(batch: Batch, length: int, stream: Literal["encoder", "decoder"]) -> Batch:
    """Return what a model reads, with virtual tokens before one stream; targets stay as they are.

    They belong to the row's first example, so rows of several examples don't all attend to them. All tokens of a
    decoder attend to them, and they to none but themselves; an encoder's attend to all tokens, unless the batch limits
    attention.

    Args:
      batch: A batch; returned as it is if ``length`` is 0.
      length: Number of virtual tokens.
      stream: Stream that they are put before.
    """
    if not length:
        return batch
    tokens = f"{stream}_input_tokens"
    num_rows = len(getattr(batch, tokens))
    first: dict[str, int | Array] = {
        tokens: virtual_ids(num_rows, length),
        f"{stream}_segment_ids": 1,
        f"{stream}_positions": jnp.arange(length)[None],
        "token_types": 0,
        "task_types": 0,
        "block_positions": 0,
        "prefix": 1,
        "ranks": 0,
    }
    fields = {name: getattr(batch, name) for name in first}
    positions = f"{stream}_positions"
    if fields[positions] is not None:
        fields[positions] = jnp.asarray(fields[positions]) + length
    extended = {
        name: prepend(first[name], jnp.asarray(rows), length)
        for name, rows in fields.items()
        if rows is not None
    }
    if batch.attention_mask is not None:
        mask = jnp.pad(jnp.asarray(batch.attention_mask), ((0, 0), (length, 0), (0, 0)))
        extended["attention_mask"] = jnp.pad(mask, ((0, 0), (0, 0), (length, 0)), constant_values=True)
    return batch._replace(**extended)
