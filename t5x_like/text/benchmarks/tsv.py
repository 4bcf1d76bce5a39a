"""GLUE's tables: tab-separated, unquoted, with the column names in the header line; and MRPC's of Microsoft."""

import functools
import logging
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from t5x_like.io.paths import find_file
from t5x_like.text.tasks.row_files import read_rows
from t5x_like.text.tasks.rows import BadRow, RawRow, Row, convert, expand, partition

_log = logging.getLogger(__name__)
_INDEX = "index"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Reader of a split's table.

    A row's ``idx`` is its position in the file, broken rows counted. Labels may be class ids or words. Only test splits
    may lack the label column; their labels are -1 then. In a test split, a column ``index``, which submissions use,
    must count the rows.

    Attributes:
      texts: The file's columns by TFDS's column names.
      label: The file's label column.
      classes: Label words in the order of class ids; ``None`` for a number.
      lowest: Smallest valid number.
      highest: Largest valid number.
      headerless: Column names of files without header line, by split.
      leaves_out_broken: Leave out rows that a line break cuts in two, as in QQP.
    """

    texts: Mapping[str, str]
    label: str = "label"
    classes: tuple[str, ...] | None = None
    lowest: float = 0.0
    highest: float = 5.0
    headerless: Mapping[str, Sequence[str]] = field(default_factory=dict)
    leaves_out_broken: bool = False

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """Read rows; see ``source.Reader``.

        Raises:
          ValueError: The file lacks a column.
        """
        is_test = split.startswith("test")
        broken: list[str] = []
        for index, row in enumerate(read_rows(file, "tsv", columns=self.headerless.get(split, ()))):
            if self.leaves_out_broken and self._is_broken(row, is_test):
                broken.append(row.location)
                continue
            check = functools.partial(self._check_columns, file, is_test)
            yield from convert([row], functools.partial(self._raw, index, is_test), check=check)
        if broken:
            _log.warning(
                "%s: %d broken rows are left out, as they always are (%s)", file, len(broken), broken[0]
            )

    def _is_broken(self, row: Row | BadRow, is_test: bool) -> bool:
        """Return True for rows cut in two: with another number of columns than the header, or without a label."""
        if isinstance(row, BadRow):
            return "columns, where" in row.reason
        return not is_test and not row.cells.get(self.label)

    def _check_columns(self, file: str, is_test: bool, row: Row) -> None:
        needed = [*self.texts.values(), *([] if is_test else [self.label])]
        missing = [name for name in needed if name not in row.cells]
        if missing:
            raise ValueError(
                f"{file}: no column {missing[0]!r}; the columns are {', '.join(row.cells)}. Is it another split's or "
                "another task's file?"
            )

    def _raw(self, row_index: int, is_test: bool, row: Row) -> RawRow:
        if is_test and row.cells.get(_INDEX, str(row_index)) != str(row_index):
            raise ValueError(
                f"{_INDEX} {row.cells[_INDEX]!r} where {row_index} should come: rows are missing, twice there or out "
                "of order, and answers could not be submitted"
            )
        label = row.cells.get(self.label)
        label = self._number(label) if self.classes is None else class_number(label, self.classes)
        values = {name: row.cells[column] for name, column in self.texts.items()}
        return RawRow({**values, "label": label, "idx": row_index}, row.location)

    def _number(self, text: str | None) -> float:
        if text is None:
            return -1.0
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{self.label} {text!r} is not a number") from None
        if math.isfinite(value) and (self.lowest <= value <= self.highest or value == -1.0):
            return value
        raise ValueError(f"{self.label} {text} is outside {self.lowest:g} to {self.highest:g}")


def class_number(label: str | None, classes: Sequence[str]) -> int:
    """Return the class id of a label word or id, or -1 for ``None``.

    Args:
      label: Word or class id.
      classes: Words in the order of class ids.

    Raises:
      ValueError: The label is outside the set.
    """
    if label is None:
        return -1
    if label in classes:
        return classes.index(label)
    if label in _numbers(len(classes)):
        return int(label)
    listed = ", ".join(f"{index} or {word}" for index, word in enumerate(classes))
    raise ValueError(f"the label {label!r} is outside the set: {listed}")


@functools.cache
def _numbers(count: int) -> frozenset[str]:
    return frozenset(["-1", *map(str, range(count))])


TRAIN, TEST, LISTED = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt", "dev_ids.tsv"


@dataclass(frozen=True, kw_only=True)
class ParaphraseFiles:
    """Reader of MRPC's files.

    They are ``msr_paraphrase_train.txt`` (train), ``dev_ids.tsv`` (validation) and ``msr_paraphrase_test.txt`` (test).
    The first two must be in the same folder. A row's ``idx`` is its position in the file with the texts. Test rows are
    read without their label, as in GLUE's server and TFDS.
    """

    classes: tuple[str, ...]

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """Read rows; see ``source.Reader``.

        Raises:
          ValueError: The other file is missing or has other columns.
        """
        folder = os.path.dirname(file)
        listed = None if split == "test" else _pairs(find_file(os.path.join(folder, LISTED)))
        texts = file if split == "test" else find_file(os.path.join(folder, TRAIN))
        for index, row in enumerate(read_rows(texts, "tsv")):
            read = functools.partial(self._rows, index, split, listed)
            yield from expand([row], read, check=functools.partial(_check_columns, texts))

    def _rows(
        self, index: int, split: str, listed: Collection[tuple[str, str]] | None, row: Row
    ) -> Iterator[RawRow]:
        cells, is_test = row.cells, listed is None
        if listed is not None and ((cells["#1 ID"], cells["#2 ID"]) in listed) != (split == "validation"):
            return
        label = class_number(None if is_test else cells.get("Quality", ""), self.classes)
        sentences = {"sentence1": cells["#1 String"], "sentence2": cells["#2 String"]}
        yield RawRow({**sentences, "label": label, "idx": index}, row.location)


def _check_columns(file: str, row: Row) -> None:
    missing = [name for name in ("#1 ID", "#2 ID", "#1 String", "#2 String") if name not in row.cells]
    if missing:
        raise ValueError(f"{file}: no column {missing[0]!r}; the columns are {', '.join(row.cells)}")


def _pairs(file: str) -> set[tuple[str, str]]:
    rows = read_rows(file, "tsv", columns=("first", "second"))
    return {(row.cells["first"], row.cells["second"]) for row in partition(rows)[0]}
