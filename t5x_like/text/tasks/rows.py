"""Rows of plain files as dictionaries of strings, every bad one named by file and line."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal, NamedTuple, get_args

from t5x_like.io.decompression import MissingBytes, decompress, split_lines
from t5x_like.io.files import as_path
from t5x_like.io.text_encoding import json_value, refuse_foreign
from t5x_like.text.tasks.record_rows import read_examples
from t5x_like.text.templates import RowValues

Format = Literal["tsv", "csv", "jsonl", "parquet", "tfrecord", "array_record"]
FORMATS: tuple[str, ...] = get_args(Format)
_PACKED = (".gz", ".zst")
_RECORDS = ("tfrecord", "array_record")
# Those with columns named in the file.
ROW_ENDINGS = (
    ".jsonl",
    *(f".jsonl{packing}" for packing in _PACKED),
    ".parquet",
    *(f".{name}" for name in _RECORDS),
)
_MAX_PACKED_LINE = 2**30  # bytes, where a small file may hold a line of any length


class Row(NamedTuple):
    """Cells by column, and where they came from (``file:line``)."""

    cells: dict[str, str]
    place: str


class RawRow(NamedTuple):
    """A row before wording, in the types of TensorFlow Datasets' schema, and where it came from (``file:line``)."""

    values: RowValues
    place: str


class BadRow(NamedTuple):
    """What is wrong with a row, and where."""

    reason: str
    place: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass
class RowPolicy:
    """What happens to bad rows: ``fail`` stops at the first, ``skip`` counts them and keeps the first few."""

    on_bad_row: Literal["fail", "skip"] = "fail"
    num_rows: int = 0
    num_skipped: int = 0
    first_skipped: list[str] = field(default_factory=list)

    def take(self, bad: BadRow) -> None:
        """Takes note of a bad row.

        Raises:
          ValueError: the policy is ``fail``.
        """
        if self.on_bad_row == "fail":
            raise ValueError(f"{bad}. Correct the row, or set on_bad_row='skip' to leave such rows out")
        self.num_skipped += 1
        if len(self.first_skipped) < 5:
            self.first_skipped.append(str(bad))

    def __str__(self) -> str:
        first = f" (first: {self.first_skipped[0]})" if self.first_skipped else ""
        return f"skipped {self.num_skipped} of {self.num_rows + self.num_skipped} rows{first}"


def read_rows(file: str, format: str, *, columns: Sequence[str] = ()) -> Iterator[Row | BadRow]:
    """Rows of one file, good and bad, in order.

    ``columns`` names the columns of a TSV or CSV file without a header line. Lines with nothing on them are
    ignored. A TSV file has no quoting; in CSV a cell in double quotes may hold commas, quotes and line
    breaks.
    """
    if format == "parquet":
        yield from _read_parquet(file)
        return
    if format in _RECORDS:
        yield from _read_records(file, format)
        return
    lines = _Lines(file)
    if format == "jsonl":
        rows = _parse_jsonl(lines)
    else:
        cells = _split_tsv(lines) if format == "tsv" else _split_csv(lines)
        rows = _with_columns(file, cells, columns)
    found = False
    for row in rows:
        found = True
        yield row
    if not found and lines.is_blank:
        yield BadRow("the file is empty", file)


def ending_of(file: str) -> str:
    """What a file's name says of its format, without its packing: ``jsonl`` for ``rows.jsonl.zst``, ``rows.JSON``."""
    path = PurePath(file.lower())
    ending = (path.with_suffix("") if path.suffix in _PACKED else path).suffix.removeprefix(".")
    return {"json": "jsonl"}.get(ending, ending)


def lines_of(file: str) -> Iterator[tuple[int, bytes | BadRow]]:
    """Lines of a file, which may be gzip or zstd if its name says so, with their numbers. Missing ones are BadRow.

    A packed file may hold nothing, as a shard of a small corpus does.
    """
    with as_path(file).open("rb") as stream:
        if not file.lower().endswith(_PACKED):
            yield from enumerate(stream, start=1)
            return
        for number, line in split_lines(decompress(stream), max_bytes=_MAX_PACKED_LINE):
            yield number, BadRow(line.reason, f"{file}:{number}") if isinstance(line, MissingBytes) else line


class _Lines:
    """Decoded lines of a file with their numbers; undecodable ones come as BadRow. Knows whether any held
    text."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.is_blank = not file.lower().endswith(_PACKED) or not as_path(file).stat().length

    def __iter__(self) -> Iterator[tuple[int, str | BadRow]]:
        for number, line in lines_of(self.file):
            text = decode_line(line, self.file, number)
            self.is_blank = self.is_blank and text == ""
            yield number, text


def decode_line(line: bytes | BadRow, file: str, number: int) -> str | BadRow:
    """A line as text without its line break; the byte-order mark some programs write first is dropped.

    Raises:
      ValueError: the file is UTF-16 or packed, so that no line can be used, whatever is done with bad rows.
    """
    if isinstance(line, BadRow):
        return line
    if number == 1:
        refuse_foreign(line, file)
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        return line.decode("utf-8").rstrip("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        return BadRow(f"invalid UTF-8 at byte {error.start} of the line", f"{file}:{number}")


def _split_tsv(lines: _Lines) -> Iterator[tuple[int, list[str] | BadRow]]:
    for number, text in lines:
        if text:
            yield number, text if isinstance(text, BadRow) else text.split("\t")


def _split_csv(lines: _Lines) -> Iterator[tuple[int, list[str] | BadRow]]:
    """Cells of CSV records, each with the number of its first line. A record goes on while a quote is
    open."""
    record: list[str] = []
    is_open, start = False, 0
    for number, text in lines:
        if isinstance(text, BadRow):
            yield number, text
            record, is_open = [], False
            continue
        if not record:
            start = number
        if not record and not text:
            continue
        record.append(text)
        is_open ^= text.count('"') % 2 == 1
        if not is_open:
            yield start, _parse_csv_record(record, f"{lines.file}:{start}")
            record = []
    if record:
        yield (
            start,
            BadRow("a double quote that starts in this record is never closed", f"{lines.file}:{start}"),
        )


def _parse_csv_record(record: list[str], place: str) -> list[str] | BadRow:
    csv.field_size_limit(2**31 - 1)  # documents may be longer than the 128 KiB it starts with
    try:
        return next(csv.reader(["\n".join(record)], strict=True))
    except csv.Error as error:
        return BadRow(f"not CSV: {error}", place)


def _with_columns(
    file: str, records: Iterator[tuple[int, list[str] | BadRow]], columns: Sequence[str]
) -> Iterator[Row | BadRow]:
    names = list(columns)
    for number, cells in records:
        if isinstance(cells, BadRow):
            if not names:
                raise ValueError(f"{cells}. It should name the columns; without it no row can be read")
            yield cells
        elif not names:
            names = cells
            if len(set(names)) < len(names):
                raise ValueError(f"{file}:{number}: two columns have the same name: {names}")
        elif len(cells) != len(names):
            reason = f"{len(cells)} columns, where {len(names)} are expected ({', '.join(names)})"
            yield BadRow(reason, f"{file}:{number}")
        else:
            yield Row(dict(zip(names, cells, strict=True)), f"{file}:{number}")


def _parse_jsonl(lines: _Lines) -> Iterator[Row | BadRow]:
    for number, text in lines:
        place = f"{lines.file}:{number}"
        if not text:
            continue
        if isinstance(text, BadRow):
            yield text
            continue
        try:
            value = json_value(text)
        except json.JSONDecodeError as error:
            yield BadRow(f"invalid JSON: {error.msg} at column {error.colno}", place)
            continue
        if isinstance(value, dict):
            yield _cells_of(value, place)
        else:
            yield BadRow(f"an object {{…}} is expected, found {type(value).__name__}", place)


def _cells_of(value: dict, place: str) -> Row | BadRow:
    """JSON and parquet values as text. Null counts as missing; lists and objects stay JSON."""
    cells = {}
    for name, cell in value.items():
        if cell is None:
            continue
        text = cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False, default=str)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            return BadRow(f"column {name!r} holds a lone surrogate at character {error.start}", place)
        cells[str(name)] = text
    return Row(cells, place)


def _read_parquet(file: str) -> Iterator[Row | BadRow]:
    import pyarrow
    import pyarrow.parquet

    try:
        with as_path(file).open("rb") as stream:
            number = 0
            for batch in pyarrow.parquet.ParquetFile(stream).iter_batches():
                for value in batch.to_pylist():
                    number += 1
                    yield _cells_of(value, f"{file}:row {number}")
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        yield BadRow(f"not a parquet file of UTF-8 text: {error}", file)
        return
    if not number:
        yield BadRow("the file is empty", file)


def _read_records(file: str, format: str) -> Iterator[Row | BadRow]:
    number = 0
    try:
        for number, cells in enumerate(read_examples(file, format), start=1):
            yield Row(cells, f"{file}:record {number}")
    except ValueError as error:
        yield BadRow(str(error), f"{file}:record {number + 1}")
