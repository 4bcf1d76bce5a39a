"""Cells of rows as text: one text, several reference texts, or a message about a value that is neither."""

import ast
import io
import itertools
import json
import tokenize
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, TypeAlias

import numpy as np

from t5x_like.io.files import json_value

Cell: TypeAlias = str | list[Any] | dict[str, Any] | None  # numbers and dates are read as text

_MAX_SHOWN = 40


def as_text(value: object, errors: str = "strict") -> str:
    """Return a value as text, which TensorFlow and seqio give as bytes.

    Args:
      value: Text, bytes of UTF-8, or any other value.
      errors: Handling of other bytes, as of ``bytes.decode``.
    """
    return value.decode("utf-8", errors) if isinstance(value, bytes) else str(value)


def is_single(cell: object) -> bool:
    """Return whether a cell is a single value: neither null nor a list or an object."""
    return cell is not None and not isinstance(cell, Mapping | list | tuple | np.ndarray)


def text_of(cells: Mapping[str, object], column: str) -> str:
    """Return a cell that is text.

    Args:
      cells: Row by column.
      column: Name of a column that the row has.

    Raises:
      ValueError: The cell is null, a list or an object.
    """
    cell = cells[column]
    if is_single(cell):
        return as_text(cell)
    if cell is None:
        raise ValueError(f"column {column!r} is null; a text is needed")
    shown = json.dumps(cell, ensure_ascii=False, default=str)
    if len(shown) > _MAX_SHOWN:
        shown = f"{shown[:_MAX_SHOWN]}…"
    kind, advice = "an object", "write the value that is meant into a column of its own"
    if isinstance(cell, list):
        kind, advice = "a list", "only the target may be a list of texts, which are several references"
    raise ValueError(f"column {column!r} holds {kind}, {shown}, where a text is needed; {advice}")


def list_of(cell: Cell, expected: str) -> list[Any]:
    """Return the list of a cell, which may hold it as JSON.

    Args:
      cell: The cell.
      expected: Form of the list, for messages.

    Raises:
      ValueError: The cell has no list.
    """
    if isinstance(cell, str):
        try:
            cell = json_value(cell)
        except json.JSONDecodeError as error:
            raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(cell, list):
        raise ValueError(f"{expected} is expected")
    return cell


def joined_text_of(cells: Mapping[str, Cell], column: str) -> str:
    """Return a cell that a head reads as text: words or classes of a list are joined by spaces, and null is empty.

    Args:
      cells: Cells of a row by column.
      column: Name of the column.

    Raises:
      ValueError: The cell is an object other than SQuAD's answers, or a list of something else.
    """
    words = _listed(cells[column], str | int)
    if words is not None:
        return " ".join(map(str, words))
    return "" if cells[column] is None else text_of(cells, column)


def parsed_cell(text: str) -> list[object] | dict[str, object] | None:
    """Return the list or object that a cell of CSV or TSV holds, in JSON or as Python writes it.

    Args:
      text: The cell.

    Returns:
      None for any other text. A list without commas, as NumPy prints it, is one.
    """
    stripped = text.strip()
    if stripped[:1] not in ("[", "{") or stripped[-1:] not in ("]", "}"):
        return None
    try:
        value = json_value(stripped)
    except json.JSONDecodeError:
        try:
            value = None if _joins_texts(stripped) else ast.literal_eval(stripped)  # as pandas writes lists
        except (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError):
            return None
    return value if isinstance(value, list | dict) else None


def _joins_texts(text: str) -> bool:
    """Return whether Python would join two texts, such as ``'the' 'king'``, to one."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = [token.type for token in tokens if token.type != tokenize.NL]
    return (tokenize.STRING, tokenize.STRING) in itertools.pairwise(kinds)


def references_of(cells: Mapping[str, Cell], column: str) -> tuple[str, ...]:
    """Return the texts of a cell: one, those of a list, or the answers of SQuAD's ``{"text": […]}``.

    Args:
      cells: Cells of a row by column.
      column: Name of the column.

    Raises:
      ValueError: The cell is null, another object, or a list of something else; or the list is empty.
    """
    texts = _listed(cells[column], str)
    if texts is None:
        return (text_of(cells, column),)
    if not texts:
        raise ValueError(f"column {column!r} is an empty list; at least one reference is needed")
    return tuple(dict.fromkeys(texts))


def _listed(cell: Any, kind: type | UnionType) -> list[Any] | None:
    """Return the items of a list, or the texts of SQuAD's answers, if all are of a kind; None for other cells."""
    if isinstance(cell, dict) and cell.keys() == {"text", "answer_start"}:
        cell = cell["text"]
    return cell if isinstance(cell, list) and all(isinstance(item, kind) for item in cell) else None


def several(columns: Sequence[str], references: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the only column with several references; None if each has one.

    Args:
      columns: Columns of a template, which may repeat.
      references: Texts of each column.

    Raises:
      ValueError: Two columns have several, whose combinations mean nothing.
    """
    names = [column for column in dict.fromkeys(columns) if len(references[column]) > 1]
    if len(names) > 1:
        raise ValueError(
            f"columns {', '.join(map(repr, names))} are lists; only one column of a target may be"
        )
    return names[0] if names else None
