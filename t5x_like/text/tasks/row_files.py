"""Rows of plain files as dictionaries of cells; bad rows are located by file and line."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any, BinaryIO, Literal, get_args

from t5x_like.io.files import as_path, json_object, lfs_advice
from t5x_like.message_sentences import sentence
from t5x_like.nested_values import one_or_several
from t5x_like.text.cells import Cell, as_text
from t5x_like.text.tasks.csv_records import (
    Record,
    excel_separator,
    named_columns,
    refuse_equal_names,
    split_csv,
)
from t5x_like.text.tasks.record_rows import read_examples
from t5x_like.text.tasks.rows import BadRow, EmptyFile, RawRow, Row, convert
from t5x_like.text.tasks.text_lines import PACKED, Line, filled_lines, text_lines, warn_of_nul

Format = Literal["tsv", "csv", "jsonl", "parquet", "arrow", "tfrecord", "array_record"]
FORMATS: tuple[str, ...] = get_args(Format)
SEPARATORS = ";|\t,"  # of cells in files that are called CSV
_RECORDS = ("tfrecord", "array_record")
_TABLES = ("parquet", "arrow")
# Extensions of files that name their columns.
ROW_ENDINGS = (
    ".jsonl",
    *(f".jsonl{packing}" for packing in PACKED),
    *(f".{name}" for name in _TABLES),
    *(f".{name}" for name in _RECORDS),
)


def formats_of(files: Mapping[str, str | Sequence[str]]) -> set[str | None]:
    """Return the formats of a task's files by their endings, ``None`` where an ending is unknown.

    Files that are found only when they are read, as those of a corpus, are unknown.
    """
    if not isinstance(files, dict):
        return {None}
    patterns = [each for split in files.values() for each in one_or_several(split)]
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
    rows = read_raw_rows(file, format, columns=columns, delimiter=delimiter)
    yield from convert(rows, lambda row: cells_of(row.values, row.location))


def good_rows(file: str) -> Iterator[Row]:
    """Yield the rows of a table, whose format is that of its name.

    Raises:
      ValueError: A row can't be read; names file and line.
    """
    for row in read_rows(file, ending_of(file)):
        if isinstance(row, BadRow):
            raise ValueError(str(row))
        yield row


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
    lines = text_lines(file, stream)
    blank: list[Line] = []
    for first in lines:
        if not first.is_blank:
            break
        blank.append(first)
    else:
        is_packed = stream is None and file.lower().endswith(PACKED)
        if not is_packed or not as_path(file).stat().length:
            yield EmptyFile("the file is empty", file)
        return
    lines = chain(blank, [first], lines)
    if format == "jsonl":
        yield from convert(filled_lines(lines), _parsed)
    else:
        yield from _with_columns(file, _records(lines, format, delimiter), columns, format)


def first_record(file: str, format: str, *, delimiter: str = ",") -> list[str]:
    """Return the cells of the first record of a TSV or CSV file, which may be names of columns.

    Args:
      file: Path.
      format: "csv" or "tsv".
      delimiter: Character between the cells of a CSV file.

    Raises:
      ValueError: It can't be read, or there is none.
    """
    record = next(_records(text_lines(file), format, delimiter), None)
    if record is None:
        raise ValueError(f"{file} is empty")
    return _good(record).cells


def _records(lines: Iterable[Line], format: str, delimiter: str) -> Iterator[Record | BadRow]:
    return _split_tsv(lines) if format == "tsv" else split_csv(lines, delimiter)


def _good(record: Record | BadRow) -> Record:
    if isinstance(record, BadRow):
        raise ValueError(str(record))
    return record


def ending_of(file: str) -> str:
    """Return the extension that identifies a file's format, without compression: ``jsonl`` for ``rows.jsonl.zst``."""
    path = PurePath(file.lower())
    ending = (path.with_suffix("") if path.suffix in PACKED else path).suffix.removeprefix(".")
    return {"json": "jsonl"}.get(ending, ending)


def names_table(text: str) -> bool:
    """Return whether a text is the name of a table, there or not; sentences may end with such a name."""
    return ending_of(text) in FORMATS and (as_path(text).is_file() or not any(map(str.isspace, text)))


def _split_tsv(lines: Iterable[Line]) -> Iterator[Record | BadRow]:
    for line in lines:
        separator = excel_separator(line.text) if line.number == 1 and not line.fault else None
        if separator not in (None, "\t"):
            raise ValueError(
                f"{line.location}: sep={separator} says that {separator!r} is between cells; read it as CSV "
                "(format='csv'), or remove the line"
            )
        if line.text and not separator:
            yield line.fault or Record(line.text.split("\t"), line.location)


def _with_columns(
    file: str, records: Iterator[Record | BadRow], columns: Sequence[str], format: str
) -> Iterator[RawRow | BadRow]:
    names = list(columns)
    refuse_equal_names(names, f"columns of {file}")
    if not names:
        for record in records:
            try:
                names = named_columns(_good(record).cells)
            except ValueError as error:
                raise ValueError(
                    f"{sentence(error)} It should name the columns; without it no row can be read"
                ) from None
            refuse_equal_names(names, record.location)
            break

    def row(record: Record) -> RawRow:
        if len(record.cells) != len(names):
            reason = f"{len(record.cells)} columns, where {len(names)} are expected ({', '.join(names)})."
            raise ValueError((reason + separator_hint(names, format)).removesuffix("."))
        return RawRow(dict(zip(names, record.cells, strict=True)), record.location)

    yield from convert(records, row)


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


def _parsed(line: Line) -> RawRow:
    try:
        return RawRow(json_object(line.text), line.location)
    except json.JSONDecodeError as error:
        hint = _jq_hint(line) if line.text.strip() in ("[", "{", "[{") else ""
        raise ValueError(describe_invalid_json(error) + hint) from None
    except ValueError as error:  # another value
        raise ValueError(f"{error}{_jq_hint(line) if line.text.startswith('[{') else ''}") from None


def _jq_hint(line: Line) -> str:
    """Return the command that makes JSONL of a file whose first line is the beginning of JSON; empty for others."""
    program = ".[]" if line.text.startswith("[") else "."
    return f"; JSONL has one object on each line: jq -c '{program}' {line.file}" if line.number == 1 else ""


def cells_of(value: Mapping[str, object], location: str) -> Row:
    """Convert numbers and other single values of JSON and parquet to text; null, lists and objects stay.

    NaN becomes null: pandas writes a missing value so.

    Args:
      value: Row of a file.
      location: File and line.

    Raises:
      ValueError: A cell has characters that Unicode lacks.
    """
    cells: dict[str, Cell] = {}
    for name, cell in value.items():
        try:
            cells[str(name)] = _cell(cell)
            text = _json(cells[str(name)])
            text.encode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"column {name!r} holds bytes that are no UTF-8 at byte {error.start}") from None
        except UnicodeEncodeError as error:
            raise ValueError(f"column {name!r} holds a lone surrogate at character {error.start}") from None
        if "\0" in text:
            warn_of_nul(location)
    return Row(cells, location)


def _cell(value: object) -> Cell:
    if value is None or isinstance(value, str | list | dict):
        return value
    if isinstance(value, bool | int | float):
        is_nan = value != value  # math.isnan refuses whole numbers over float's range
        return None if is_nan else json.dumps(value)
    return as_text(value)


def _json(cell: Cell) -> str:
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False, default=str)


def _read_table(file: str, format: str, piped: BinaryIO | None) -> Iterator[RawRow | BadRow]:
    import pyarrow

    with contextlib.ExitStack() as opened:
        if piped is None:
            stream = opened.enter_context(as_path(file).open("rb"))
        else:  # both formats are read from their end
            stream = opened.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(piped, stream)
            stream.seek(0)
        row_number = 0
        try:
            for batch in table_batches(stream, is_parquet=format == "parquet"):
                refuse_equal_names(batch.schema.names, file)
                for value in _with_shortest_numbers(batch).to_pylist():
                    row_number += 1
                    yield RawRow(value, f"{file}:row {row_number}")
        # pyarrow raises OSError for cut or damaged files.
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            stream.seek(0)
            if advice := lfs_advice(stream.read(64)):
                raise ValueError(f"{file} {advice}") from None
            kind = "a parquet" if format == "parquet" else "an Arrow"
            yield BadRow(f"not {kind} file of UTF-8 text: {error}", file)
            return
    if not row_number:
        yield EmptyFile("the file is empty", file)


def _with_shortest_numbers(batch: Any) -> Any:
    """Return a batch with float64 in place of narrower floats: 0.1 and not 0.10000000149011612, as pandas writes it.

    Args:
      batch: A ``pyarrow.RecordBatch``.
    """
    import pyarrow

    for index, field in enumerate(batch.schema):
        if field.type in (pyarrow.float16(), pyarrow.float32()):
            numbers = [float(str(each)) for each in batch.column(index).to_numpy(zero_copy_only=False)]
            batch = batch.set_column(index, field.name, pyarrow.array(numbers, from_pandas=True))
    return batch


def table_batches(stream: Any, *, is_parquet: bool) -> Iterable[Any]:
    """Return the record batches of a parquet or Arrow file; the latter as a stream or with a footer.

    Args:
      stream: Open file.
      is_parquet: The file is parquet, not Arrow.

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
        return (opened.get_batch(index) for index in range(opened.num_record_batches))


def _read_records(file: str, format: str) -> Iterator[Row | BadRow]:
    record_number = 0
    try:
        for record_number, cells in enumerate(read_examples(file, format), start=1):
            yield Row(dict(cells), f"{file}:record {record_number}")
    except ValueError as error:
        yield BadRow(str(error), f"{file}:record {record_number + 1}")
