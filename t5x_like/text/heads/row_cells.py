"""Cells of a row as heads read them: filled templates, and the numbers of classes."""

import math
from collections.abc import Sequence
from typing import Any

from t5x_like.text.cells import as_text, text_of
from t5x_like.text.templates import RowValues, Template

UNLABELED = -1  # number of the class of a row without a label


def columns_in(*templates: str) -> tuple[str, ...]:
    """Return the columns that templates name, each once, in order."""
    return tuple(dict.fromkeys(name for template in templates for name in Template(template).fields))


def filled(template: str, values: RowValues) -> str:
    """Fill a template with a row's columns.

    Args:
      template: Text with ``{column}``.
      values: Cells of the row by column.

    Raises:
      ValueError: A column is missing, null, a list or an object.
    """
    parsed = Template(template)
    missing = parsed.missing(values)
    if missing:
        raise ValueError(missing)
    return parsed.fill({name: text_of(values, name) for name in parsed.fields})


def column_of(values: RowValues, name: str) -> Any:
    """Return a cell.

    Args:
      values: Cells of the row by column.
      name: Name of the column.

    Raises:
      ValueError: There is no such column, or it is null.
    """
    if name not in values:
        raise ValueError(f"no column {name!r}; the columns are {', '.join(values) or 'none'}")
    if values[name] is None:
        raise ValueError(f"column {name!r} is null")
    return values[name]


def number_in(values: RowValues, column: str) -> float:
    """Return a cell that is a finite number.

    Args:
      values: Cells of the row by column.
      column: Name of the column.

    Raises:
      ValueError: There is no such column, or its cell is no such number.
    """
    cell = as_text(column_of(values, column))
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"column {column!r} is {cell!r}, not a number")
    return value


def class_of(values: RowValues, column: str, classes: Sequence[str]) -> int:
    """Return the number of a row's class, -1 if it has none.

    Args:
      values: Columns of the row.
      column: Column with the class.
      classes: Names of the classes.

    Raises:
      ValueError: The class is not in ``classes``.
    """
    label = values.get(column)
    return UNLABELED if label is None else class_number(label, classes, column)


def class_number(label: Any, classes: Sequence[str], column: str) -> int:
    """Return the number of a class by its number or name.

    Args:
      label: Number, or name as in users' files.
      classes: Names of the classes.
      column: Column, for messages.

    Raises:
      ValueError: The class is not in ``classes``.
    """
    if isinstance(label, bytes | str):
        word = as_text(label).strip()
        if word in classes:
            return classes.index(word)
        if not word.removeprefix("-").isdigit():
            raise ValueError(f"{column} is {word!r}; it must be one of {', '.join(classes)}")
        label = word
    try:
        label_number = int(label)
    except (TypeError, ValueError):
        label_number = None
    if label_number is None or (isinstance(label, float) and label_number != label):
        raise ValueError(f"{column} is {label!r}; it must be a whole number, or one of {', '.join(classes)}")
    if not UNLABELED <= label_number < len(classes):
        raise ValueError(
            f"{column} is {label_number}; it must be 0 … {len(classes) - 1} ({', '.join(classes)}), or -1 if unlabeled"
        )
    return label_number
