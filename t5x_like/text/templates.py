"""Templates such as ``gloss: {gloss}``, which turn a row's columns into text."""

import difflib
import functools
import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

RowValues = Mapping[str, Any]  # a row by its columns


@dataclass(frozen=True)
class Template:
    """Text with ``{column}`` fields for a row's cells; ``{{`` and ``}}`` are literal braces.

    Cells are inserted as they are: braces in them have no meaning.
    """

    text: str

    def __post_init__(self) -> None:
        try:
            parts = list(string.Formatter().parse(self.text))
        except ValueError as error:
            raise ValueError(f"template {self.text!r}: {error}; write {{{{ and }}}} for braces") from None
        for _, name, specification, conversion in parts:
            if name is not None and (specification or conversion or not name or "{" in name):
                raise ValueError(f"template {self.text!r}: only plain {{column}} fields are understood")

    @functools.cached_property
    def _parts(self) -> list[tuple[str, str | None]]:
        return [(literal, name) for literal, name, _, _ in string.Formatter().parse(self.text)]

    @functools.cached_property
    def fields(self) -> tuple[str, ...]:
        """Columns that the template names, in order."""
        return tuple(name for _, name in self._parts if name is not None)

    def fill(self, cells: Mapping[str, str]) -> str:
        """Return the text for one row.

        Raises:
          KeyError: A column is missing.
        """
        return "".join(literal + (cells[name] if name is not None else "") for literal, name in self._parts)

    def missing(self, columns: Collection[str]) -> str | None:
        """Return a message if ``columns`` lack one that the template names; None otherwise."""
        absent = [name for name in self.fields if name not in columns]
        if not absent:
            return None
        near = difflib.get_close_matches(absent[0], list(columns), n=1)
        hint = f" Did you mean {{{near[0]}}}?" if near else ""
        return f"no column {absent[0]!r}; the columns are {', '.join(columns) or 'none'}.{hint}"
