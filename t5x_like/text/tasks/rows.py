"""Rows of files: good ones with their location, bad ones with the reason."""

import heapq
import random
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from t5x_like.io.text_encoding import windows_remedy
from t5x_like.message_sentences import sentence
from t5x_like.text.templates import RowValues

RowT = TypeVar("RowT")
AnyT = TypeVar("AnyT")
MadeT = TypeVar("MadeT")


def sample_of(
    rows: Iterable[AnyT], limit: int | None, *, group_of: Callable[[AnyT], Hashable] | None = None
) -> list[tuple[int, AnyT]]:
    """Return rows of a sample with their positions, in order; always the same ones.

    Rows that are sorted by label keep its shares. A smaller sample is a part of a larger one.

    Args:
      rows: Rows, which are read to the end.
      limit: Most rows of the sample; None for all.
      group_of: Function from a row to the key of its group. Groups stay whole; a first one over ``limit`` does, too.
    """
    if limit is None:
        return list(enumerate(rows))
    generator = random.Random(0)
    if group_of is None:
        # Numbers differ, so that rows themselves are never compared.
        drawn = ((generator.random(), row_index, row) for row_index, row in enumerate(rows))
        return sorted(
            ((row_index, row) for _, row_index, row in heapq.nsmallest(limit, drawn)), key=itemgetter(0)
        )
    groups: dict[Hashable, list[tuple[int, AnyT]]] = {}
    for row_index, row in enumerate(rows):
        groups.setdefault(group_of(row), []).append((row_index, row))
    sample: list[tuple[int, AnyT]] = []
    for group in sorted(groups.values(), key=lambda _: generator.random()):
        if sample and len(sample) + len(group) > limit:
            break
        sample += group
    return sorted(sample, key=itemgetter(0))


class Row(NamedTuple):
    """Cells of one row.

    Attributes:
      cells: Values by column: text, or a list or object of JSON, or None.
      location: Source (``file:line``).
    """

    cells: dict[str, Any]
    location: str


class RawRow(NamedTuple):
    """Row before formatting.

    Attributes:
      values: Columns, in the types of TensorFlow Datasets' schema.
      location: Source (``file:line``).
    """

    values: RowValues
    location: str


class BadRow(NamedTuple):
    """Row that can't be used.

    Attributes:
      reason: Description of the problem.
      location: Source (``file:line``).
    """

    reason: str
    location: str

    @property
    def remedy(self) -> str:
        """Sentence about what a user can do."""
        return "Correct the row, or set on_bad_row='skip' to skip such rows"

    @property
    def is_undecoded(self) -> bool:
        """True if the row isn't UTF-8."""
        return False

    def __str__(self) -> str:
        return f"{self.location}: {self.reason}"


class UndecodedRow(BadRow):
    """Row that isn't UTF-8; as text it names the command that converts its file.

    Only who has seen the whole file knows whether the row is damaged or the file is in another encoding.
    """

    @property
    def is_undecoded(self) -> bool:
        """True if the row isn't UTF-8."""
        return True

    def __str__(self) -> str:
        return f"{super().__str__()}; {windows_remedy(self.location.rpartition(':')[0])}"


class EmptyFile(BadRow):
    """File without any row, in place of one."""

    @property
    def remedy(self) -> str:
        """Sentence about what a user can do."""
        return "Give a file with rows, or set on_bad_row='skip' to do without it"


class _Located(Protocol):
    @property
    def location(self) -> str: ...


LocatedT = TypeVar("LocatedT", bound=_Located)


def expand(
    rows: Iterable[LocatedT | BadRow],
    make: Callable[[LocatedT], Iterable[MadeT | BadRow]],
    *,
    check: Callable[[LocatedT], object] | None = None,
) -> Iterator[MadeT | BadRow]:
    """Yield what ``make`` returns for each good row; bad rows stay.

    Args:
      rows: Good and bad rows, each with its location.
      make: Function from a good row to any number of rows. Its ``ValueError`` is the reason of a bad row.
      check: Function of a good row that raises errors of the whole file.
    """
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        if check:
            check(row)
        try:
            yield from make(row)
        except ValueError as error:
            yield BadRow(str(error), row.location)


def convert(
    rows: Iterable[LocatedT | BadRow],
    make: Callable[[LocatedT], MadeT],
    *,
    check: Callable[[LocatedT], object] | None = None,
) -> Iterator[MadeT | BadRow]:
    """Yield the row that a function returns for each good row; bad rows stay.

    Args:
      rows: Good and bad rows, each with its location.
      make: Function from a good row to another. Its ``ValueError`` is the reason of a bad row.
      check: Function of a good row that raises errors of the whole file.
    """
    return expand(rows, lambda row: (make(row),), check=check)


def partition(rows: Iterable[RowT | BadRow]) -> tuple[list[RowT], list[BadRow]]:
    """Return the good rows and the bad ones."""
    good: list[RowT] = []
    bad: list[BadRow] = []
    for row in rows:
        if isinstance(row, BadRow):
            bad.append(row)
        else:
            good.append(row)
    return good, bad


@dataclass
class RowPolicy:
    """Treatment of bad rows.

    Attributes:
      on_bad_row: "fail" stops at the first bad row, "skip" counts them.
      num_rows: Number of good rows.
      num_skipped: Number of bad rows.
      first_skipped: Descriptions of the first few bad rows.
    """

    on_bad_row: Literal["fail", "skip"] = "fail"
    num_rows: int = 0
    num_skipped: int = 0
    first_skipped: list[str] = field(default_factory=list)

    def good_rows(self, rows: "Iterable[RowT | BadRow]") -> Iterator[RowT]:
        """Yield the good rows, and count both kinds.

        Rows must have passed every check before: each is counted once.

        Raises:
          ValueError: A row is bad, and ``on_bad_row`` is "fail".
        """
        for row in rows:
            if isinstance(row, BadRow):
                self.take(row)
            else:
                self.num_rows += 1
                yield row

    def take(self, bad: BadRow) -> None:
        """Record a bad row.

        Raises:
          ValueError: ``on_bad_row`` is "fail".
        """
        if self.on_bad_row == "fail":
            raise ValueError(f"{sentence(bad)} {bad.remedy}")
        self.num_skipped += 1
        if len(self.first_skipped) < 5:
            self.first_skipped.append(str(bad))

    def described(self) -> dict[str, object]:
        """Return the fields about bad rows in ``scores.json``."""
        return {"skipped": self.num_skipped, "first_skipped": self.first_skipped}

    def __str__(self) -> str:
        first = f" (first: {self.first_skipped[0]})" if self.first_skipped else ""
        return f"skipped {self.num_skipped} of {self.num_rows + self.num_skipped} rows{first}"
