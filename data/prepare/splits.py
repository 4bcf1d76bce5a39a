"""Deterministic splits that depend on the rows' keys and a seed, not on the order of rows."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from t5x_like.io.files import write_text

Row = TypeVar("Row")


def shuffle_by_key(rows: Iterable[Row], key: Callable[[Row], str], *, seed: int) -> list[Row]:
    """Return rows in a pseudorandom order that is the same on every machine and Python version.

    Args:
      rows: The rows.
      key: Returns the unique key of a row.
      seed: Seed of the order.
    """
    return sorted(rows, key=lambda row: hashlib.sha256(f"{seed}:{key(row)}".encode()).digest())


def hold_out(rows: Sequence[Row], sizes: Mapping[str, int], *, rest: str) -> dict[str, list[Row]]:
    """Divide shuffled rows into splits of the given sizes, and a split ``rest`` of the remaining rows.

    Args:
      rows: Shuffled rows.
      sizes: Rows of each held-out split.
      rest: Name of the last split.

    Raises:
      ValueError: Nothing would remain.
    """
    if sum(sizes.values()) >= len(rows):
        raise ValueError(f"cannot hold out {dict(sizes)} from {len(rows)} rows: nothing remains for {rest!r}")
    splits: dict[str, list[Row]] = {}
    start = 0
    for name, size in sizes.items():
        splits[name] = list(rows[start : start + size])
        start += size
    return {rest: list(rows[start:]), **splits}


def write_tsv(path: str | os.PathLike[str], header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write tab-separated rows without quotes; cells with a tab or line break are refused.

    Args:
      path: The file.
      header: Names of the columns.
      rows: Cells of each row.
    """
    lines = ["\t".join(header)]
    for row in rows:
        if len(row) != len(header) or any(mark in cell for cell in row for mark in "\t\n\r"):
            raise ValueError(f"row {row!r} does not fit the columns {list(header)}")
        lines.append("\t".join(row))
    write_text(path, "\n".join(lines) + "\n")
