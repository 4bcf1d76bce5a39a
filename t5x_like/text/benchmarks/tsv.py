"""GLUE's tables: unquoted, columns between tabs, told apart by the names in the header line."""

import functools
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from t5x_like.text.tasks.rows import BadRow, RawRow, Row, read_rows

_log = logging.getLogger(__name__)
_INDEX = "index"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Reads a split's file.

    A row's ``idx`` is its place in the file, broken rows counted. Labels may be numbers or words. Only a test split's
    file may lack the column of labels; they are then -1. Where a file of a test split has a column ``index``, by which
    answers are handed in, it must count the rows.
    """

    texts: Mapping[str, str]  # TFDS's column, and the file's
    label: str = "label"
    classes: tuple[str, ...] | None = None  # a number where not given
    lowest: float = 0.0  # of numbers
    highest: float = 5.0
    headerless: Mapping[str, Sequence[str]] = field(default_factory=dict)  # columns by split
    leaves_out_broken: bool = False  # QQP has rows cut in two by a line break

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """See ``source.Reader``.

        Raises:
          ValueError: the file lacks a column.
        """
        is_test = split.startswith("test")
        broken: list[str] = []
        for number, row in enumerate(read_rows(file, "tsv", columns=self.headerless.get(split, ()))):
            if isinstance(row, Row) and not number:
                self._check_columns(file, row, is_test)
            if self.leaves_out_broken and self._is_broken(row, is_test):
                broken.append(row.place)
            else:
                yield self._raw(row, number, is_test) if isinstance(row, Row) else row
        if broken:
            _log.warning(
                "%s: %d broken rows are left out, as they always are (%s)", file, len(broken), broken[0]
            )

    def _is_broken(self, row: Row | BadRow, is_test: bool) -> bool:
        """Cut in two: with other columns than the header's, or without a label."""
        if isinstance(row, BadRow):
            return "columns, where" in row.reason
        return not is_test and not row.cells.get(self.label)

    def _check_columns(self, file: str, row: Row, is_test: bool) -> None:
        needed = [*self.texts.values(), *([] if is_test else [self.label])]
        missing = [name for name in needed if name not in row.cells]
        if missing:
            raise ValueError(
                f"{file}: no column {missing[0]!r}; the columns are {', '.join(row.cells)}. Is it another split's or "
                "another task's file?"
            )

    def _raw(self, row: Row, number: int, is_test: bool) -> RawRow | BadRow:
        if is_test and row.cells.get(_INDEX, str(number)) != str(number):
            return BadRow(
                f"{_INDEX} {row.cells[_INDEX]!r} where {number} should come: rows are missing, twice there or out of "
                "order, and answers could not be submitted",
                row.place,
            )
        if self.classes is None:
            label = self._number(row)
        else:
            label = class_number(row.cells.get(self.label), self.classes, row.place)
        if isinstance(label, BadRow):
            return label
        values = {name: row.cells[column] for name, column in self.texts.items()}
        return RawRow({**values, "label": label, "idx": number}, row.place)

    def _number(self, row: Row) -> float | BadRow:
        text = row.cells.get(self.label)
        if text is None:
            return -1.0
        try:
            value = float(text)
        except ValueError:
            return BadRow(f"{self.label} {text!r} is not a number", row.place)
        if math.isfinite(value) and (self.lowest <= value <= self.highest or value == -1.0):
            return value
        return BadRow(f"{self.label} {text} lies outside {self.lowest:g} to {self.highest:g}", row.place)


def class_number(label: str | None, classes: Sequence[str], place: str) -> int | BadRow:
    """The number of a class written as its word or number; -1 where there is none."""
    if label is None:
        return -1
    if label in classes:
        return classes.index(label)
    if label in _numbers(len(classes)):
        return int(label)
    listed = ", ".join(f"{number} or {word}" for number, word in enumerate(classes))
    return BadRow(f"the label {label!r} is outside the set: {listed}", place)


@functools.cache
def _numbers(count: int) -> frozenset[str]:
    return frozenset(["-1", *map(str, range(count))])
