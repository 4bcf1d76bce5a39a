"""Batching by length: longest rows first, padded to few lengths, with results in the original order."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import jax
import numpy as np
from jax.sharding import Mesh

from t5x_like.audio.recording import Recording
from t5x_like.batch import Batch
from t5x_like.partitioning.shard import place, row_share

Result = TypeVar("Result")
Ids = Sequence[int] | np.ndarray | Recording

_LENGTH_MULTIPLE = 32  # tokens


def length_batches(sizes: Sequence[int] | np.ndarray, batch_size: int) -> Iterator[list[int]]:
    """Yield the indices of ``batch_size`` rows of similar length, the longest rows first.

    A batch that doesn't fit into memory therefore fails at once. Batches depend on the sizes only.

    Args:
      sizes: Number of tokens of each row.
      batch_size: Rows of a batch; the last one may have fewer.
    """
    order = np.argsort(-np.asarray(sizes), kind="stable").tolist()
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def run_by_length(
    sizes: Sequence[int] | np.ndarray, batch_size: int, run: Callable[[list[int]], Sequence[Result]]
) -> list[Result]:
    """Run a function on batches of rows of similar length, and return one result for each row in the original order.

    Args:
      sizes: Number of tokens of each row.
      batch_size: Rows of a batch; the last one may have fewer.
      run: Called with the indices of a batch's rows; returns their results.
    """
    results: dict[int, Result] = {}
    for numbers in length_batches(sizes, batch_size):
        results |= zip(numbers, run(numbers), strict=True)
    return [results[index] for index in range(len(results))]


def round_length(length: int, longest: int | None = None) -> int:
    """Return the next multiple of 32, so that nearby lengths share one compiled program.

    Args:
      length: Number of tokens; a length of 0 becomes one multiple.
      longest: Number of tokens that a model has positions for. A round length beyond it is cut, but never ``length``.
    """
    rounded = -(-max(length, 1) // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
    return rounded if longest is None else max(min(rounded, longest), length)


def pad_prompts(
    prompts: Sequence[Ids] | np.ndarray,
    *,
    length: int,
    batch_size: int | None = None,
    fill: int = 0,
    on_the_left: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens or samples [B, L], and their mask, int32 [B, L], of padded prompts.

    Args:
      prompts: Ids of prompts, int32, or recordings, float32.
      length: Number of columns.
      batch_size: Number of rows, with one token in those without any, which would give not-a-number. One row for each
        prompt, as it is, if not given.
      fill: Id of padding.
      on_the_left: Padding is on the left.
    """
    num_rows = len(prompts) if batch_size is None else batch_size
    dtype = np.float32 if any(isinstance(each, Recording) for each in prompts) else np.int32
    tokens, mask = np.full((num_rows, length), fill, dtype), np.zeros((num_rows, length), np.int32)
    if batch_size is not None:
        mask[:, -1 if on_the_left else 0] = 1
    for row, ids in enumerate(prompts):
        columns = slice(length - len(ids), length) if on_the_left else slice(len(ids))
        tokens[row, columns], mask[row, columns] = ids, 1
    return tokens, mask


def place_rows(rows: Batch | tuple[np.ndarray, ...], mesh: Mesh) -> tuple:
    """Place a batch on the mesh. Every process holds all rows, and places those that it is responsible for.

    Args:
      rows: Arrays with one entry for each row of the batch.
      mesh: Devices.
    """
    index, count = row_share(mesh)

    def share(array: np.ndarray) -> np.ndarray:
        size = len(array) // count
        return array[index * size : (index + 1) * size]

    return place(jax.tree.map(share, rows), mesh)
