"""Division of rows into training and validation: no group and no text is on both sides."""

import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence

from t5x_like.gin_config.user_error import UserError
from t5x_like.projects.project_rows import ProjectRow

MIN_ROWS = 10
_MOST_VALIDATION_ROWS = 2000


def split_rows(rows: Sequence[ProjectRow]) -> tuple[list[ProjectRow], list[ProjectRow]]:
    """Divide rows; the same rows always give the same division.

    Rows with the same texts or the same group stay together. Both sides have about the same shares of labels, and
    training has rows of every label.

    Returns:
      Rows of training and of validation, in their order.

    Raises:
      UserError: There are too few rows, or nearly all of them belong together.
    """
    if len(rows) < MIN_ROWS:
        raise UserError(
            f"{len(rows)} usable rows; a split into training and validation needs at least {MIN_ROWS}",
            hint="give more rows, or validation=FILE",
        )
    units = _units(rows)
    chosen = _validation_units(rows, units, _num_validation_rows(len(rows)))
    if not chosen:
        raise UserError(
            f"of {len(rows)} rows {max(map(len, units))} belong together by their text or group, so none can be set "
            "apart for validation",
            hint="give another group=COLUMN, or validation=FILE",
        )
    numbers = {row_index for unit in chosen for row_index in units[unit]}
    train = [row for row_index, row in enumerate(rows) if row_index not in numbers]
    return train, [rows[row_index] for row_index in sorted(numbers)]


def without_rows_of(
    rows: Sequence[ProjectRow], others: Sequence[ProjectRow]
) -> tuple[list[ProjectRow], list[ProjectRow]]:
    """Return the rows whose texts and groups other rows don't have, and the remaining ones.

    Args:
      rows: Rows to divide.
      others: Rows of another split.
    """
    keys, groups = {row.key for row in others}, {row.group for row in others if row.group}
    kept, dropped = [], []
    for row in rows:
        (dropped if row.key in keys or row.group in groups else kept).append(row)
    return kept, dropped


def _num_validation_rows(num_units: int) -> int:
    """Return a fifth of few rows, a tenth of many, and at most 2,000."""
    share = 0.2 if num_units < 1000 else 0.1
    return min(max(round(num_units * share), 2), _MOST_VALIDATION_ROWS)


def _units(rows: Sequence[ProjectRow]) -> list[list[int]]:
    """Return the numbers of rows that belong together, in an order that depends on their texts alone."""
    parents = list(range(len(rows)))

    def root(row_index: int) -> int:
        while parents[row_index] != row_index:
            parents[row_index] = parents[parents[row_index]]
            row_index = parents[row_index]
        return row_index

    firsts: dict[Hashable, int] = {}
    for row_index, row in enumerate(rows):
        for mark in (("text", row.key), *([("group", row.group)] if row.group else [])):
            parents[root(row_index)] = root(firsts.setdefault(mark, row_index))
    units: dict[int, list[int]] = {}
    for row_index in range(len(rows)):
        units.setdefault(root(row_index), []).append(row_index)
    return sorted(units.values(), key=lambda unit: hashlib.sha256(rows[unit[0]].key.encode("utf-8")).digest())


def _validation_units(rows: Sequence[ProjectRow], units: list[list[int]], wanted: int) -> set[int]:
    """Choose units with about ``wanted`` rows, the rarest label first."""
    strata = [
        Counter(label for row_index in unit for label in rows[row_index].strata or ("",)) for unit in units
    ]
    totals: Counter[str] = sum(strata, Counter())
    missing = {label: round(total * wanted / len(rows)) for label, total in totals.items()}
    for label, total in totals.items():
        missing[label] = max(missing[label], int(total >= 2))
    remaining = Counter(totals)  # of training
    chosen: set[int] = set()
    num_rows = 0
    for label in sorted(totals, key=lambda label: (totals[label], label)):
        for row_index, unit in enumerate(units):
            if missing[label] <= 0 or num_rows >= 2 * wanted:
                break
            if row_index in chosen or not strata[row_index][label]:
                continue
            is_too_large = num_rows + len(unit) > max(2 * wanted, 2) or len(unit) > len(rows) // 2
            if is_too_large or any(remaining[each] <= count for each, count in strata[row_index].items()):
                continue
            chosen.add(row_index)
            num_rows += len(unit)
            remaining -= strata[row_index]
            for each, count in strata[row_index].items():
                missing[each] -= count
    return chosen
