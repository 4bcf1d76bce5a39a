"""Deterministic splits: what is held out depends on the rows' keys and a seed, never on their order."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from t5x_like.io.files import write_text

Row = TypeVar("Row")


def shuffle_by_key(rows: Iterable[Row], key: Callable[[Row], str], *, seed: int) -> list[Row]:
    """``rows`` in an order that looks random and is the same on every machine and Python version."""
    return sorted(rows, key=lambda row: hashlib.sha256(f"{seed}:{key(row)}".encode()).digest())


def hold_out(rows: Sequence[Row], sizes: Mapping[str, int], *, rest: str) -> dict[str, list[Row]]:
    """Cuts shuffled ``rows`` into splits of the given sizes; what remains is the split called ``rest``.

    Raises:
      ValueError: nothing would remain.
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
    """Writes tab-separated rows under a header line, unquoted; cells with a tab or line break are refused."""
    lines = ["\t".join(header)]
    for row in rows:
        if len(row) != len(header) or any(mark in cell for cell in row for mark in "\t\n\r"):
            raise ValueError(f"row {row!r} does not fit the columns {list(header)}")
        lines.append("\t".join(row))
    write_text(path, "\n".join(lines) + "\n")
