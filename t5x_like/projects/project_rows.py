"""Rows of a project: the cells that its model reads, and what splitting and reports compare."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

_SHOWN = 60  # characters of a text in reports
_MAX_EXAMPLES = 3


class ProjectRow(NamedTuple):
    """Row of a project.

    Attributes:
      cells: Cells to write, by column.
      texts: Texts that the model reads.
      answer: Label in one text, which rows with the same texts should share.
      strata: Labels whose shares both splits keep; empty if labels are open.
      group: Group that one split keeps together; empty without groups.
      location: Source (``file:line``).
    """

    cells: dict[str, Any]
    texts: tuple[str, ...]
    answer: str
    strata: tuple[str, ...]
    group: str
    location: str

    @property
    def key(self) -> str:
        """Texts without differences of case and white space."""
        return "\n".join(" ".join(text.split()).casefold() for text in self.texts)


@dataclass(frozen=True, kw_only=True)
class Repetitions:
    """Rows with the same texts.

    Attributes:
      num_duplicates: Number of rows that repeat an earlier row, label included.
      duplicates: Examples of such rows.
      num_contradictions: Number of texts with several labels.
      contradictions: Examples of such rows.
    """

    num_duplicates: int
    duplicates: Sequence[str]
    num_contradictions: int
    contradictions: Sequence[str]

    def lines(self) -> Iterator[str]:
        """Yield lines of a report."""
        if self.num_duplicates:
            yield f"repeated: {count_of(self.num_duplicates, 'row')} with the text and label of an earlier one"
            yield from (f"  {example}" for example in self.duplicates)
        if self.num_contradictions:
            yield f"contradictory: {count_of(self.num_contradictions, 'text')} with several labels"
            yield from (f"  {example}" for example in self.contradictions)


def find_repetitions(rows: Sequence[ProjectRow]) -> Repetitions:
    """Find rows with the same texts, ignoring case and white space."""
    by_key: dict[str, list[ProjectRow]] = defaultdict(list)
    for row in rows:
        by_key[row.key].append(row)
    duplicates: list[str] = []
    contradictions: list[str] = []
    num_duplicates = num_contradictions = 0
    for same in by_key.values():
        first_with = {row.answer: row for row in reversed(same)}
        num_duplicates += len(same) - len(first_with)
        if len(same) > len(first_with) and len(duplicates) < _MAX_EXAMPLES:
            common = Counter(row.answer for row in same).most_common(1)[0][0]
            locations = [row.location for row in same if row.answer == common]
            duplicates.append(f"{shown(same[0].texts[0])} ({listed(locations)})")
        if len(first_with) > 1:
            num_contradictions += 1
            if len(contradictions) < _MAX_EXAMPLES:
                labels = [f"{shown(answer)} in {row.location}" for answer, row in first_with.items()]
                contradictions.append(f"{shown(same[0].texts[0])}: {listed(sorted(labels))}")
    return Repetitions(
        num_duplicates=num_duplicates,
        duplicates=duplicates,
        num_contradictions=num_contradictions,
        contradictions=contradictions,
    )


def rare_label_lines(train: Sequence[ProjectRow], validation: Sequence[ProjectRow]) -> Iterator[str]:
    """Yield lines of a report on labels that have one row, or rows of one split alone.

    Args:
      train: Training rows.
      validation: Validation rows.
    """
    in_training, in_validation = (
        Counter(label for row in rows for label in row.strata) for rows in (train, validation)
    )
    both = in_training + in_validation
    if single := [shown(name) for name in in_training if both[name] == 1]:
        yield f"  with one row each, which is in training: {listed(single)}"
    if unknown := [shown(name) for name in in_validation if not in_training[name]]:
        yield f"  in validation alone, so that they can't be learned: {listed(unknown)}"


def shown(text: str) -> str:
    """Return a text as a quoted line of at most 60 characters; control characters are escaped."""
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


def listed(items: Sequence[str], most: int = _MAX_EXAMPLES) -> str:
    """Return the first items, and the number of the others.

    Args:
      items: Texts to list.
      most: Number of items to show.
    """
    rest = len(items) - most
    return ", ".join(items[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, ``1 row`` or ``1,200 rows``.

    Args:
      number: Number of things.
      noun: Singular that takes an "s".
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"
