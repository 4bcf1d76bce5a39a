"""A user's table: its rows, and facts about each column."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from t5x_like.gin_config.user_error import UserError, nearest
from t5x_like.projects.project_rows import count_of, listed
from t5x_like.text.tasks.rows import BadRow

_NO_NAMES = "its first line is a row like the others"


class TableRow(NamedTuple):
    """Row of a table.

    Attributes:
      cells: Text, list or record by column; missing cells are left out.
      location: Source (``file:line``).
    """

    cells: dict[str, Any]
    location: str


@dataclass(frozen=True, kw_only=True)
class Column:
    """Filled cells of a column.

    Attributes:
      name: Name of the column.
      cells: Cells with text, a list or a record.
    """

    name: str
    cells: Sequence[Any]

    @functools.cached_property
    def is_list(self) -> bool:
        """True if all cells are lists."""
        return bool(self.cells) and all(isinstance(cell, list) for cell in self.cells)

    @functools.cached_property
    def is_text(self) -> bool:
        """True if all cells are text; numbers are text, too."""
        return bool(self.cells) and all(isinstance(cell, str) for cell in self.cells)

    @functools.cached_property
    def is_number(self) -> bool:
        """True if all cells are finite numbers."""
        return self.is_text and all(map(is_number, self.cells))

    @functools.cached_property
    def is_whole_number(self) -> bool:
        """True if all cells are whole numbers."""
        return self.is_number and all(float(cell).is_integer() for cell in self.cells)

    @functools.cached_property
    def num_distinct(self) -> int:
        """Number of different cells."""
        return len({repr(cell) for cell in self.cells})

    @functools.cached_property
    def mean_length(self) -> float:
        """Mean number of characters of a cell."""
        return sum(len(str(cell)) for cell in self.cells) / max(len(self.cells), 1)


@dataclass(frozen=True, kw_only=True)
class UserTable:
    """Rows of a CSV, TSV, JSONL, parquet or Arrow file.

    Attributes:
      file: Path.
      description: Format of the file in words.
      rows: Usable rows.
      bad_rows: Rows that can't be read.
      column_names: Names of the columns, in order.
      has_names: True if the file or the user names the columns.
    """

    file: str
    description: str
    rows: Sequence[TableRow]
    bad_rows: Sequence[BadRow]
    column_names: Sequence[str]
    has_names: bool = True

    def lines(self, naming: str) -> list[str]:
        """Return lines of a report.

        Args:
          naming: Call or command that names the columns of a file without a line of names.
        """
        columns = listed([repr(name) for name in self.column_names], 12)
        line = f"{self.file}: {count_of(len(self.rows), 'row')} of {self.description}, columns {columns}"
        note = f"  {_NO_NAMES}; name the columns: {naming}"
        return [line] if self.has_names else [line, note]

    @functools.cached_property
    def columns(self) -> dict[str, Column]:
        """Columns by name."""
        return {
            name: Column(name=name, cells=[row.cells[name] for row in self.rows if name in row.cells])
            for name in self.column_names
        }

    def column(self, name: str, flag: str) -> Column:
        """Return a column.

        Args:
          name: Name of the column.
          flag: Argument that names it, for messages.

        Raises:
          UserError: There is no such column, or all of its cells are empty.
        """
        if name not in self.columns:
            known = ", ".join(map(repr, self.column_names))
            raise UserError(
                f"{flag}={name}: {self.file} has no such column; the columns are {known}",
                hint=nearest(name, self.column_names)
                or ("" if self.has_names else f"{_NO_NAMES}; name its columns"),
            )
        if not self.columns[name].cells:
            raise UserError(f"{flag}={name}: all cells of this column of {self.file} are empty")
        return self.columns[name]


def is_number(cell: Any) -> bool:
    """Return whether a cell is a finite number."""
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False
