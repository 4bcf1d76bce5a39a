"""Documents of plain files for pretraining, every bad one named by file and line."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from t5x_like.text.tasks.rows import FORMATS, Bad, Row, decode_line, ending_of, lines_of, read_rows


class Document(NamedTuple):
    """Text and where it came from (``file:line``)."""

    text: str
    place: str
    sentences: tuple[str, ...] = ()  # the lines that were joined, where the corpus has one sentence a line
    spans: tuple[tuple[int, int], ...] = ()  # annotated stretches, in characters, in order


def read_documents(
    file: str, *, separator: str, column: str, spans_column: str | None = None
) -> Iterator[Document | Bad]:
    """Documents of one file: of JSONL, CSV, TSV, parquet, TFRecord or ArrayRecord one a row (``column``), of
    other files plain text.

    Text may be gzip or zstd (``corpus.jsonl.zst``).

    In plain text every line is a document (``separator="line"``) or blank lines stand between them
    (``separator="blank_line"``); lines of one document are then joined by spaces. ``spans_column`` holds
    annotations of the text as ``[[start, end], …]``, in characters.
    """
    format = ending_of(file)
    if format in FORMATS:
        for row in read_rows(file, format):
            yield _document(row, column, spans_column) if isinstance(row, Row) else row
        return
    if spans_column is not None:
        yield Bad(f"plain text has no column {spans_column!r}; give JSONL, CSV, TSV or parquet files", file)
        return
    found = False
    for document in _of_lines(file) if separator == "line" else _of_paragraphs(file):
        found = True
        yield document
    if not found:
        yield Bad("the file is empty", file)


def _document(row: Row, column: str, spans_column: str | None) -> Document | Bad:
    for needed in (column, spans_column):
        if needed is not None and needed not in row.cells:
            return Bad(f"no column {needed!r}; the columns are {', '.join(row.cells) or 'none'}", row.place)
    text = row.cells[column]
    if spans_column is None:
        return Document(text, row.place)
    try:
        return Document(text, row.place, spans=_spans(row.cells[spans_column], len(text)))
    except ValueError as error:
        return Bad(f"column {spans_column!r}: {error}", row.place)


def _spans(cell: str, length: int) -> tuple[tuple[int, int], ...]:
    try:
        pairs = json.loads(cell)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(pairs, Sequence) or not all(map(_is_pair, pairs)):
        raise ValueError("[[start, end], …] is expected, two whole numbers for each span")
    spans = tuple(sorted((pair[0], pair[1]) for pair in pairs))
    last = 0
    for start, end in spans:
        if not last <= start < end <= length:
            raise ValueError(
                f"the span [{start}, {end}] is empty, overlaps another, or ends after the text's {length} characters"
            )
        last = end
    return spans


def _is_pair(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(type(number) is int for number in pair)


def _of_lines(file: str) -> Iterator[Document | Bad]:
    for number, line in lines_of(file):
        text = decode_line(line, file, number)
        if isinstance(text, Bad):
            yield text
        elif text.strip():
            yield Document(text, f"{file}:{number}")


def _of_paragraphs(file: str) -> Iterator[Document | Bad]:
    lines: list[str] = []
    start = 0
    for number, line in lines_of(file):
        text = decode_line(line, file, number)
        if isinstance(text, Bad):
            yield text
        elif text.strip():
            start = start if lines else number
            lines.append(text.strip())
        elif lines:
            yield Document(" ".join(lines), f"{file}:{start}", tuple(lines))
            lines = []
    if lines:
        yield Document(" ".join(lines), f"{file}:{start}", tuple(lines))
