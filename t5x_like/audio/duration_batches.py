"""Batches of recordings of similar length, each with at most so many seconds, padding included."""

from collections.abc import Sequence

import numpy as np

_VARIATION = 0.05  # of lengths in the order, so that neighbors differ between epochs


def plan_batches(
    seconds: Sequence[float], budget_seconds: float, *, max_rows: int | None = None, seed: int | None = None
) -> list[list[int]]:
    """Return the rows of each batch; every row is in one.

    Rows are padded to the longest of their batch: that length times the number of rows is within the budget.

    Args:
      seconds: Length of each row.
      budget_seconds: Most seconds of a batch with its padding.
      max_rows: Most rows of a batch; None for any.
      seed: Seed of this epoch's neighbors and of the order of the batches. None keeps the order of lengths, the
        longest first, so that memory runs out at once or never.

    Raises:
      ValueError: A row alone is longer than the budget, or a number is not positive.
    """
    lengths = np.asarray(seconds, np.float64)
    if not budget_seconds > 0 or (max_rows is not None and max_rows < 1):
        raise ValueError(f"budget_seconds={budget_seconds} and max_rows={max_rows} must be positive")
    if lengths.size and lengths.max() > budget_seconds:
        row_index = int(lengths.argmax())
        raise ValueError(
            f"row {row_index} has {lengths[row_index]:.2f} seconds, more than budget_seconds={budget_seconds:g}; raise "
            "the budget, or leave long rows out"
        )
    generator = None if seed is None else np.random.default_rng(seed)
    keys = lengths
    if generator is not None:
        keys = lengths * (1 + _VARIATION * generator.uniform(-1, 1, lengths.size))
    batches: list[list[int]] = []
    longest = 0.0
    for row_index in np.argsort(-keys, kind="stable").tolist():
        width = max(longest, float(lengths[row_index]))
        is_full = not batches or len(batches[-1]) == max_rows
        if is_full or width * (len(batches[-1]) + 1) > budget_seconds:
            batches.append([])
            width = float(lengths[row_index])
        batches[-1].append(row_index)
        longest = width
    if generator is not None:
        generator.shuffle(batches)
    return batches


def padding_share(seconds: Sequence[float], batches: Sequence[Sequence[int]]) -> float:
    """Return the share of padding in all batches, from 0 to below 1.

    Args:
      seconds: Length of each row.
      batches: Rows of each batch.
    """
    padded = sum(max(seconds[row_index] for row_index in rows) * len(rows) for rows in batches)
    spoken = sum(seconds[row_index] for rows in batches for row_index in rows)
    return 1 - spoken / padded if padded else 0.0
