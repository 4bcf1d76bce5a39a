"""Check that a row has its benchmark's columns, with values of their types."""

import difflib
import math
from collections.abc import Mapping

from t5x_like.nested_values import leaves_of
from t5x_like.text.benchmarks.source import Columns, Kind
from t5x_like.text.templates import RowValues

_LISTS: dict[str, Kind] = {"texts": "text", "ints": "int"}
_TYPES = {"text": (str,), "int": (int,), "float": (int, float)}  # and not bool, which is an int
_CALLED = {
    "int": "a whole number",
    "float": "a number",
    "text": "text",
    "texts": "a list of texts",
    "ints": "a list",
}


def find_fault(row: RowValues, columns: Columns) -> str | None:
    """Describe the first missing column or wrong value of a row; return ``None`` for a good row.

    Args:
      row: The row; it may have further columns.
      columns: Types of the required columns.
    """
    for name, kind in columns.items():
        if name in row and row[name] is None:
            return f"column {name!r} is empty (null)"
        if name not in row:
            near = difflib.get_close_matches(name, list(row), n=1)
            hint = f"; is {near[0]!r} meant?" if near else ""
            return f"no column {name!r}, only {', '.join(map(str, row)) or 'none'}{hint}"
        if isinstance(kind, Mapping):
            inner = (
                find_fault(row[name], kind)
                if isinstance(row[name], Mapping)
                else f"not columns: {row[name]!r}"
            )
            if inner:
                return f"{name}: {inner}"
        elif not _has_type(row[name], kind):
            return f"column {name!r} must hold {_CALLED[kind]}, not {_short(row[name])}"
        elif _has_surrogate(row[name]):
            return f"column {name!r} holds half of a character (a lone surrogate): {_short(row[name])}"
    return None


def _has_type(value: object, kind: Kind) -> bool:
    if kind in _LISTS:
        return isinstance(value, list | tuple) and all(_has_type(each, _LISTS[kind]) for each in value)
    return type(value) in _TYPES[kind] and (type(value) is not float or math.isfinite(value))


def _has_surrogate(value: object) -> bool:
    """Return True if a text has lone surrogates, which JSON can write but no vocabulary can encode."""
    texts = (leaf for leaf in leaves_of(value) if isinstance(leaf, str) and not leaf.isascii())
    return any("\ud800" <= character <= "\udfff" for text in texts for character in text)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def empty_texts(row: RowValues, columns: Columns) -> list[str]:
    """Return the text columns that are empty in a row.

    Args:
      row: Values by column.
      columns: Columns with their types.
    """
    return [name for name, kind in columns.items() if kind == "text" and not str(row[name]).strip()]
