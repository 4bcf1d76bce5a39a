"""Rows of plain files as dictionaries of cells; bad rows are located by file and line."""

import contextlib
import json
import logging
import math
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, BinaryIO, Literal, get_args

from t5x_like.io.decompression import MissingBytes, decompress, split_lines
from t5x_like.io.files import as_path, json_value
from t5x_like.io.text_encoding import refuse_foreign
from t5x_like.message_sentences import sentence
from t5x_like.text.cells import Cell
from t5x_like.text.tasks.csv_records import excel_separator, named_columns, refuse_equal_names, split_csv
from t5x_like.text.tasks.record_rows import read_examples
from t5x_like.text.tasks.rows import BadRow, RawRow, Row, UndecodedRow

_log = logging.getLogger(__name__)

Format = Literal["tsv", "csv", "jsonl", "parquet", "arrow", "tfrecord", "array_record"]
FORMATS: tuple[str, ...] = get_args(Format)
SEPARATORS = ";|\t,"  # of cells in files that are called CSV
_PACKED = (".gz", ".zst")
_RECORDS = ("tfrecord", "array_record")
_TABLES = ("parquet", "arrow")
# Extensions of files that name their columns.
ROW_ENDINGS = (
    ".jsonl",
    *(f".jsonl{packing}" for packing in _PACKED),
    *(f".{name}" for name in _TABLES),
    *(f".{name}" for name in _RECORDS),
)
_WARNED_OF_NUL: set[str] = set()
_MAX_PACKED_LINE = 2**30  # bytes, because a small compressed file may hold a line of any length


def formats_of(files: Mapping[str, str | Sequence[str]]) -> set[str | None]:
    """Return the formats of a task's files by their endings, ``None`` where an ending is unknown.

    Files that are found only when they are read, as those of a corpus, are unknown.
    """
    if not isinstance(files, dict):
        return {None}
    patterns = [each for split in files.values() for each in ([split] if isinstance(split, str) else split)]
    endings = {ending_of(each) for each in patterns}
    return {ending if ending in FORMATS else None for ending in endings}


def read_rows(
    file: str, format: str, *, columns: Sequence[str] = (), delimiter: str = ","
) -> Iterator[Row | BadRow]:
    """Yield the rows of one file, good and bad, in order; blank lines are ignored.

    A TSV file has no quoting; in CSV a cell in double quotes may contain delimiters, quotes and line breaks.

    Args:
      file: Path.
      format: Format, one of ``FORMATS``.
      columns: Names of the columns of a TSV or CSV file without a header line.
      delimiter: Character between the cells of a CSV file.
    """
    if format in _RECORDS:
        yield from _read_records(file, format)
        return
    for row in read_raw_rows(file, format, columns=columns, delimiter=delimiter):
        yield row if isinstance(row, BadRow) else cells_of(row.values, row.place)


def read_raw_rows(
    file: str,
    format: str,
    *,
    columns: Sequence[str] = (),
    delimiter: str = ",",
    stream: BinaryIO | None = None,
) -> Iterator[RawRow | BadRow]:
    """Yield the rows of a table with values of the types that the file has; see ``read_rows``.

    Args:
      file: Path, or the name of ``stream`` in messages.
      format: "csv", "tsv", "jsonl", "parquet" or "arrow".
      columns: Names of the columns of a file without a header line; see ``read_rows``.
      delimiter: Character between the cells of a CSV file.
      stream: The table, if it is no file; parquet and Arrow are read from a copy on disk.
    """
    if format in _TABLES:
        yield from _read_table(file, format, stream)
        return
    lines = _Lines(file, stream)
    if format == "jsonl":
        rows = _parse_jsonl(lines)
    else:
        rows = _with_columns(file, _records(lines, format, delimiter), columns, format)
    found = False
    for row in rows:
        found = True
        yield row
    if not found and lines.is_blank:
        yield BadRow("the file is empty", file)


def first_record(file: str, format: str, *, delimiter: str = ",") -> list[str]:
    """Return the cells of the first record of a TSV or CSV file, which may be names of columns.

    Args:
      file: Path.
      format: "csv" or "tsv".
      delimiter: Character between the cells of a CSV file.

    Raises:
      ValueError: It can't be read, or there is none.
    """
    for _, cells in _records(_Lines(file), format, delimiter):
        if isinstance(cells, BadRow):
            raise ValueError(str(cells))
        return cells
    raise ValueError(f"{file} is empty")


def _records(lines: "_Lines", format: str, delimiter: str) -> Iterator[tuple[int, list[str] | BadRow]]:
    return _split_tsv(lines) if format == "tsv" else split_csv(lines.with_bytes(), lines.file, delimiter)


def ending_of(file: str) -> str:
    """Return the extension that identifies a file's format, without compression: ``jsonl`` for ``rows.jsonl.zst``."""
    path = PurePath(file.lower())
    ending = (path.with_suffix("") if path.suffix in _PACKED else path).suffix.removeprefix(".")
    return {"json": "jsonl"}.get(ending, ending)


def names_table(text: str) -> bool:
    """Return whether a text is the name of a table, there or not; sentences may end with such a name."""
    return ending_of(text) in FORMATS and (as_path(text).is_file() or not any(map(str.isspace, text)))


def lines_of(file: str) -> Iterator[tuple[int, bytes | BadRow]]:
    """Yield the numbered lines of a file, which may be compressed by gzip or zstd; lost lines are BadRow.

    A compressed file may be empty, as a shard of a small corpus is.
    """
    with as_path(file).open("rb") as stream:
        if not file.lower().endswith(_PACKED):
            yield from enumerate(stream, start=1)
            return
        for number, line in split_lines(decompress(stream), max_bytes=_MAX_PACKED_LINE):
            yield number, BadRow(line.reason, f"{file}:{number}") if isinstance(line, MissingBytes) else line


class _Lines:
    """Decoded lines of a file with their numbers; undecodable ones are BadRow.

    Attributes:
      file: Path, or name of the stream.
      is_blank: Whether no line held text so far.
    """

    def __init__(self, file: str, stream: BinaryIO | None = None) -> None:
        self.file, self._stream = file, stream
        is_packed = stream is None and file.lower().endswith(_PACKED)
        self.is_blank = not is_packed or not as_path(file).stat().length

    def __iter__(self) -> Iterator[tuple[int, str | BadRow]]:
        for number, text, _ in self.with_bytes():
            yield number, text

    def with_bytes(self) -> Iterator[tuple[int, str | BadRow, bytes]]:
        """Yield numbers, decoded lines and their bytes, which are empty for lost lines."""
        lines = lines_of(self.file) if self._stream is None else enumerate(self._stream, start=1)
        for number, line in lines:
            text = decode_line(line, self.file, number)
            self.is_blank = self.is_blank and isinstance(text, str) and not text.strip()
            yield number, text, b"" if isinstance(line, BadRow) else line


def decode_line(line: bytes | BadRow, file: str, number: int) -> str | BadRow:
    """Return a line as text without its line break and without a byte order mark.

    Args:
      line: Line as bytes.
      file: Path of the file.
      number: Number of the line, from 1.

    Raises:
      ValueError: The file is UTF-16 or compressed, so that no line can be used.
    """
    if isinstance(line, BadRow):
        return line
    if number == 1:
        refuse_foreign(line, file)
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        text = line.decode("utf-8").rstrip("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        return UndecodedRow(f"invalid UTF-8 at byte {error.start} of the line", f"{file}:{number}")
    if "\0" in text:
        _warn_of_nul(file, f"{file}:{number}")
    return text


def _warn_of_nul(file: str, place: str) -> None:
    """Warn once for each file: a copy that failed, or a disk that was full, leaves NUL bytes."""
    if file not in _WARNED_OF_NUL:
        _WARNED_OF_NUL.add(file)
        _log.warning("%s holds NUL bytes, which are kept; is the file damaged?", place)


def _split_tsv(lines: _Lines) -> Iterator[tuple[int, list[str] | BadRow]]:
    for number, text in lines:
        separator = excel_separator(text) if number == 1 and isinstance(text, str) else None
        if separator not in (None, "\t"):
            raise ValueError(
                f"{lines.file}:1: sep={separator} says that {separator!r} is between cells; read it as CSV "
                "(format='csv'), or remove the line"
            )
        if text and not separator:
            yield number, text if isinstance(text, BadRow) else text.split("\t")


def _with_columns(
    file: str, records: Iterator[tuple[int, list[str] | BadRow]], columns: Sequence[str], format: str
) -> Iterator[RawRow | BadRow]:
    names = list(columns)
    refuse_equal_names(names, f"columns of {file}")
    for number, cells in records:
        if isinstance(cells, BadRow):
            if not names:
                raise ValueError(
                    f"{sentence(cells)} It should name the columns; without it no row can be read"
                )
            yield cells
        elif not names:
            names = named_columns(cells)
            refuse_equal_names(names, f"{file}:{number}")
        elif len(cells) != len(names):
            reason = f"{len(cells)} columns, where {len(names)} are expected ({', '.join(names)})."
            yield BadRow((reason + separator_hint(names, format)).removesuffix("."), f"{file}:{number}")
        else:
            yield RawRow(dict(zip(names, cells, strict=True)), f"{file}:{number}")


def separator_hint(columns: Sequence[str], format: str) -> str:
    """Return advice for a table whose only column name contains another separator; empty for other tables.

    Args:
      columns: Names of the columns.
      format: Format by which the table was read.
    """
    if len(columns) != 1:
        return ""
    separator = max(SEPARATORS, key=columns[0].count)
    if separator not in columns[0]:
        return ""
    advice = {"\t": "format='tsv'", ",": "format='csv'"}.get(
        separator, f"format='csv' and {separator!r} as delimiter"
    )
    if format == "csv" and separator in ";|":
        advice = f"delimiter={separator!r}"
    return f" Are the columns separated by {separator!r}? Then set {advice}."


def describe_invalid_json(error: json.JSONDecodeError) -> str:
    """Return the problem, its position, and the text there."""
    rest = error.doc[error.pos : error.pos + 20]
    return (
        f"invalid JSON: {error.msg} at column {error.colno}, {f'before {rest!r}' if rest else 'at the end'}"
    )


def _parse_jsonl(lines: _Lines) -> Iterator[RawRow | BadRow]:
    for number, text in lines:
        place = f"{lines.file}:{number}"
        if isinstance(text, BadRow):
            yield text
            continue
        if not text.strip():
            continue
        try:
            value = json_value(text)
        except json.JSONDecodeError as error:
            is_one_document = number == 1 and text.strip() in ("[", "{", "[{")
            program = ".[]" if text.startswith("[") else "."
            hint = (
                f"; JSONL has one object on each line: jq -c '{program}' {lines.file}"
                if is_one_document
                else ""
            )
            yield BadRow(describe_invalid_json(error) + hint, place)
            continue
        if isinstance(value, dict):
            yield RawRow(value, place)
        else:
            yield BadRow(f"an object {{…}} is expected, found {type(value).__name__}", place)


def cells_of(value: Mapping[str, Any], place: str) -> Row | BadRow:
    """Convert numbers and other single values of JSON and parquet to text; null, lists and objects stay.

    NaN becomes null: pandas writes a missing value so.
    """
    cells: dict[str, Cell] = {}
    for name, cell in value.items():
        try:
            cells[str(name)] = _cell(cell)
            text = _json(cells[str(name)])
            text.encode("utf-8")
        except UnicodeDecodeError as error:
            return BadRow(f"column {name!r} holds bytes that are no UTF-8 at byte {error.start}", place)
        except UnicodeEncodeError as error:
            return BadRow(f"column {name!r} holds a lone surrogate at character {error.start}", place)
        if "\0" in text:
            _warn_of_nul(place.rpartition(":")[0], place)
    return Row(cells, place)


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, str | list | dict):
        return value
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8")
    return json.dumps(value) if isinstance(value, bool | int | float) else str(value)


def _json(cell: Cell) -> str:
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False, default=str)


def _read_table(file: str, format: str, piped: BinaryIO | None) -> Iterator[RawRow | BadRow]:
    import pyarrow

    with contextlib.ExitStack() as opened:
        if piped is None:
            stream: Any = opened.enter_context(as_path(file).open("rb"))
        else:  # both formats are read from their end
            stream = opened.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(piped, stream)
            stream.seek(0)
        number = 0
        try:
            for batch in table_batches(stream, is_parquet=format == "parquet"):
                refuse_equal_names(batch.schema.names, file)
                for value in batch.to_pylist():
                    number += 1
                    yield RawRow(value, f"{file}:row {number}")
        # pyarrow raises OSError for cut or damaged files.
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            kind = "a parquet" if format == "parquet" else "an Arrow"
            yield BadRow(f"not {kind} file of UTF-8 text: {error}", file)
            return
    if not number:
        yield BadRow("the file is empty", file)


def table_batches(stream: Any, *, is_parquet: bool) -> Iterable[Any]:
    """Return the record batches of a parquet or Arrow file; the latter as a stream or with a footer.

    Raises:
      pyarrow.ArrowException, OSError: It is another kind of file, or damaged.
    """
    import pyarrow.ipc
    import pyarrow.parquet

    if is_parquet:
        return pyarrow.parquet.ParquetFile(stream).iter_batches()
    try:
        return pyarrow.ipc.open_stream(stream)
    except pyarrow.ArrowInvalid:
        stream.seek(0)
        opened = pyarrow.ipc.open_file(stream)
        return (opened.get_batch(number) for number in range(opened.num_record_batches))


def _read_records(file: str, format: str) -> Iterator[Row | BadRow]:
    number = 0
    try:
        for number, cells in enumerate(read_examples(file, format), start=1):
            yield Row(dict(cells), f"{file}:record {number}")
    except ValueError as error:
        yield BadRow(str(error), f"{file}:record {number + 1}")
