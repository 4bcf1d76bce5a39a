"""Documents of plain files for pretraining, every bad one named by file and line."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from t5x_like.files import as_path
from t5x_like.text.tasks.rows import Bad, Row, decode_line, read_rows


class Document(NamedTuple):
    """Text and where it came from (``file:line``)."""

    text: str
    place: str


def read_documents(file: str, *, separator: str, column: str) -> Iterator[Document | Bad]:
    """Documents of one file: of JSONL, CSV, TSV or parquet one a row (``column``), of other files plain text.

    In plain text every line is a document (``separator="line"``) or blank lines stand between them
    (``separator="blank_line"``); lines of one document are then joined by spaces.
    """
    ending = PurePath(file).suffix.removeprefix(".").lower()
    format = {"json": "jsonl"}.get(ending, ending)
    if format in ("jsonl", "csv", "tsv", "parquet"):
        for row in read_rows(file, format):
            yield _document(row, column) if isinstance(row, Row) else row
        return
    found = False
    for document in _of_lines(file) if separator == "line" else _of_paragraphs(file):
        found = True
        yield document
    if not found:
        yield Bad("the file is empty", file)


def _document(row: Row, column: str) -> Document | Bad:
    if column not in row.cells:
        return Bad(f"no column {column!r}; the columns are {', '.join(row.cells) or 'none'}", row.place)
    return Document(row.cells[column], row.place)


def _of_lines(file: str) -> Iterator[Document | Bad]:
    with as_path(file).open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            text = decode_line(line, file, number)
            if isinstance(text, Bad):
                yield text
            elif text.strip():
                yield Document(text, f"{file}:{number}")


def _of_paragraphs(file: str) -> Iterator[Document | Bad]:
    lines: list[str] = []
    start = 0
    with as_path(file).open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            text = decode_line(line, file, number)
            if isinstance(text, Bad):
                yield text
            elif text.strip():
                start = start if lines else number
                lines.append(text.strip())
            elif lines:
                yield Document(" ".join(lines), f"{file}:{start}")
                lines = []
    if lines:
        yield Document(" ".join(lines), f"{file}:{start}")
