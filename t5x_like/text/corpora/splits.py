"""Deterministic splits: which rows are held out depends on their keys and a seed, never on their order or number."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from t5x_like.files import write_text

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
    """Writes tab-separated rows under a header line. Cells hold no tab, quote-escape or line break: we refuse them."""
    lines = ["\t".join(header)]
    for row in rows:
        if len(row) != len(header) or any(mark in cell for cell in row for mark in "\t\n\r"):
            raise ValueError(f"row {row!r} does not fit the columns {list(header)}")
        lines.append("\t".join(row))
    write_text(path, "\n".join(lines) + "\n")


def describe_files(folder: str | os.PathLike[str]) -> str:
    """The table of a data card: name, bytes, rows and sha256 of every data file, to paste into its README.md."""
    lines = ["| file | rows | bytes | sha256 |", "|---|---|---|---|"]
    for path in sorted(Path(folder).iterdir()):
        if path.suffix not in (".tsv", ".txt", ".model", ".vocab"):
            continue
        content = path.read_bytes()
        rows = content.count(b"\n") - (path.suffix == ".tsv")
        count = "" if path.suffix == ".model" else f"{rows:,}"
        lines.append(f"| {path.name} | {count} | {len(content):,} | {hashlib.sha256(content).hexdigest()} |")
    return "\n".join(lines)
