"""Texts to be found: files of folders, and rows of tables, each with an id and its file."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from t5x_like.corpora.building.input_files import InputFile, find_input
from t5x_like.corpora.pages.page_reader import read_pages
from t5x_like.text.cells import as_text
from t5x_like.text.tasks.row_files import FORMATS, ending_of, good_rows
from t5x_like.text.tasks.rows import Row

# Names of the columns that published corpora and transformers' examples give to texts, ids and titles.
_TEXTS = ("text", "contents", "content", "passage", "document", "body", "sentence")
_IDS = ("_id", "id", "docid", "doc_id", "url")
_TITLE = "title"


class SourceText(NamedTuple):
    """Text of a file or of a row.

    Attributes:
      id: Value of the id column; without one, the file or ``file:row``.
      file: Path of the file, from the name of its folder.
      text: The text, after its title if it has one.
    """

    id: str
    file: str
    text: str


@dataclass(frozen=True, kw_only=True)
class TextColumns:
    """Columns of tables. Files of other kinds are one text each.

    Attributes:
      text: Column of the text; by its usual names if empty.
      id: Column of the id; by its usual names if empty, and without any the file and number of the row.
      title: Column of a title, which is put before the text; ``title`` if empty and there is one.
    """

    text: str = ""
    id: str = ""
    title: str = ""


def read_source_texts(paths: Sequence[str], columns: TextColumns = TextColumns()) -> Iterator[SourceText]:
    """Yield the texts of files, of the documents in folders, and of the rows of tables, in a fixed order.

    Memory doesn't grow with the files. Texts of white space alone are left out.

    Args:
      paths: Files, patterns and folders. JSONL, CSV, TSV, parquet and Arrow files have a text in each row; text,
        Markdown and HTML files are one text.
      columns: Columns of tables.

    Raises:
      ValueError: A path doesn't exist, a folder has no document, or a row can't be read.
    """
    for file in find_input(paths).files:
        is_table = ending_of(file.path) in FORMATS
        for source in _of_table(file, columns) if is_table else _of_document(file):
            if source.text.strip():
                yield source


def _of_document(file: InputFile) -> Iterator[SourceText]:
    for _, page in read_pages(file.path, address=file.name):
        yield SourceText(page.url, file.name, page.text)


def _of_table(file: InputFile, columns: TextColumns) -> Iterator[SourceText]:
    for index, row in enumerate(good_rows(file.path), start=1):
        location = f"{file.name}:{index}"
        name = column_of(row, columns.id, _IDS, "ids", required=False)
        text = cell_text(row, column_of(row, columns.text, _TEXTS, "texts"))
        title = column_of(row, columns.title, (_TITLE,), "titles", required=False)
        heading = cell_text(row, title) if title else ""
        source_id = cell_text(row, name) if name else ""
        yield SourceText(source_id or location, file.name, f"{heading} {text}".strip() if heading else text)


def column_of(row: Row, name: str, usual: Sequence[str], what: str, *, required: bool = True) -> str:
    """Return the column that a user names, or the first one with a usual name; empty if none is required.

    Args:
      row: Row of the table.
      name: Name that the user gave; empty for none.
      usual: Usual names.
      what: Content of the column, for the message.
      required: Refuse a table without the column.

    Raises:
      ValueError: The table has no such column.
    """
    listed = ", ".join(row.cells) or "none"
    if name:
        if name not in row.cells:
            raise ValueError(f"{row.location}: no column {name!r}; the columns are {listed}")
        return name
    usual_name = next((each for each in usual if each in row.cells), "")
    if not usual_name and required:
        raise ValueError(
            f"{row.location}: no column has a usual name of {what} ({', '.join(usual)}); the columns are {listed}. "
            "Name it"
        )
    return usual_name


def cell_text(row: Row, column: str) -> str:
    """Return the text of a cell; an empty text for null.

    Args:
      row: Row of a table.
      column: Column of the row.
    """
    cell = row.cells[column]
    return "" if cell is None else as_text(cell)


def count_bytes(paths: Sequence[str]) -> int:
    """Return the stored bytes of the files that ``read_source_texts`` reads."""
    return sum(os.path.getsize(file.path) for file in find_input(paths).files)
