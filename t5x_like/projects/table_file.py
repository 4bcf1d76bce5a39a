"""A user's file as a table: its format, separator, names of columns and encoding are found out."""

import itertools
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from t5x_like.gin_config.user_error import UserError
from t5x_like.io.paths import find_file
from t5x_like.projects.column_guess import is_usual_name
from t5x_like.projects.project_rows import count_of
from t5x_like.projects.table import TableRow, UserTable, is_number
from t5x_like.text.cells import parsed_cell
from t5x_like.text.tasks.csv_records import excel_separator
from t5x_like.text.tasks.documents import read_documents
from t5x_like.text.tasks.row_files import FORMATS, ending_of, first_record, read_rows
from t5x_like.text.tasks.rows import BadRow, partition
from t5x_like.text.tasks.text_lines import text_lines

_DELIMITERS = ",;\t|"
_SEPARATED = ("csv", "tsv")
_PLAIN = "txt"
_MAX_NAME = 60  # characters; a longer cell of the first line is a text, not a column's name
_FIRST_ROWS = 1000
_USUAL_NAMES = 2  # cells of a first line that are usual names of columns; one may be a text


def read_table(file: str, *, columns: Sequence[str] = (), named: Sequence[str] = ()) -> UserTable:
    """Read a table; the delimiter of a CSV file and whether a first line names the columns are guessed.

    Args:
      file: Path.
      columns: Names of the columns of a CSV or TSV file without a line of names.
      named: Columns that the user names; where the first line has one of them, it is a line of names.

    Raises:
      UserError: There is no such file, its format isn't known, it is in another encoding, or it has no rows.
    """
    path = _path_of(file)
    format = _format_of(path)
    if columns and format not in _SEPARATED:
        raise UserError(
            f"names of columns ({', '.join(columns)}) are for CSV and TSV without a line of names; {file} is {format}",
            hint="leave columns out",
        )
    if format == _PLAIN:
        return _plain_text(file, path)
    options: dict[str, Any] = {}
    has_names = True
    description = {"tsv": "TSV", "csv": "CSV", "jsonl": "JSONL"}.get(format, format)
    if format in _SEPARATED:
        _, separator = _first_line(path)
        delimiter = "\t" if format == "tsv" else separator or _delimiter_of(path)
        if format == "csv":
            options["delimiter"] = delimiter
            description += "" if delimiter == "," else f" separated by {delimiter!r}"
        cells = first_record(path, format, delimiter=delimiter)
        if columns or not ({*named} & {*cells} or _first_line_names_columns(path, format, options)):
            numbered = tuple(f"column_{index}" for index in range(1, len(cells) + 1))
            options["columns"] = tuple(columns) or numbered
            description += " without names of columns"
            has_names = bool(columns)
            if len(options["columns"]) != len(cells):
                raise UserError(
                    f"{count_of(len(columns), 'name')} of columns ({', '.join(columns)}) for {file}, whose first row "
                    f"has {count_of(len(cells), 'cell')}",
                    hint="give columns a name for each cell",
                )
    good_rows, bad_rows = partition(read_rows(path, format, **options))
    rows = [TableRow(_filled(row.cells), row.location) for row in good_rows]
    bad_rows = _damaged(bad_rows, [" ".join(map(str, row.cells.values())) for row in rows])
    if not rows:
        reason = str(bad_rows[0]) if bad_rows else f"{file}: there are names of columns and no row"
        raise UserError(reason, hint="nothing can be learned from it; give another file")
    names = list(options.get("columns", ())) or list(
        dict.fromkeys(name for row in rows for name in row.cells)
    )
    return UserTable(
        file=file,
        description=description,
        rows=_with_lists(rows, names),
        bad_rows=bad_rows,
        column_names=names,
        has_names=has_names,
    )


def _damaged(bad_rows: Sequence[BadRow], texts: Sequence[str]) -> list[BadRow]:
    """Return the bad rows, of which those that aren't UTF-8 are damaged ones of a file that is.

    Args:
      bad_rows: All bad rows.
      texts: Text of each good row. A character above ASCII is read only if the file is UTF-8.

    Raises:
      UserError: The file is in another encoding; the message says how to convert it.
    """
    undecoded = [row for row in bad_rows if row.is_undecoded]
    if len(undecoded) > sum(not text.isascii() for text in texts):
        num_rows = count_of(len(bad_rows) + len(texts), "row")
        raise UserError(str(undecoded[0]), hint=f"{len(undecoded):,} of {num_rows} can't be read")
    return [BadRow(*row) for row in bad_rows]


def _plain_text(file: str, path: str) -> UserTable:
    """Return lines of text as a table with one column."""
    documents, bad_rows = partition(read_documents(path, separator="line", column="text"))
    rows = [TableRow({"text": document.text}, document.location) for document in documents]
    return UserTable(
        file=file,
        description="plain text",
        rows=rows,
        bad_rows=_damaged(bad_rows, [document.text for document in documents]),
        column_names=["text"],
    )


def is_separated(file: str) -> bool:
    """Return whether a file is CSV or TSV, whose columns may have no names.

    Raises:
      UserError: There is no such file, or its format isn't known.
    """
    return _format_of(_path_of(file)) in _SEPARATED


def _path_of(file: str) -> str:
    try:
        return find_file(file)
    except ValueError as error:
        raise UserError(str(error)) from None


def _format_of(path: str) -> str:
    ending = ending_of(path)
    if ending == "txt" and "\t" not in _first_line(path)[0]:
        return _PLAIN
    known = {"txt": "tsv", "tab": "tsv"}.get(ending, ending)
    if known in FORMATS:
        return known
    hint = {
        "xlsx": "save the sheet as CSV",
        "xls": "save the sheet as CSV",
        "ods": "save the sheet as CSV",
    }.get(ending, "convert it, or give the file the ending of its format")
    raise UserError(
        f"{path}: tables are CSV, TSV, JSONL, parquet or Arrow by their ending, not {ending or 'without one'!r}",
        hint=hint,
    )


def _first_line(path: str) -> tuple[str, str | None]:
    """Return the first line with cells, and the character between them if Excel's line ``sep=;`` names it."""
    separator = None
    for line in text_lines(path):
        if line.fault:
            raise UserError(f"{line.fault}. The first line must be readable")
        if line.number == 1 and (separator := excel_separator(line.text)):
            continue
        if line.text:
            return line.text, separator
    raise UserError(f"{path} is empty", hint="nothing can be learned from it; give another file")


def _delimiter_of(path: str) -> str:
    """Return the character that divides the first record into the most cells."""

    def num_cells(delimiter: str) -> int:
        try:
            return len(first_record(path, "csv", delimiter=delimiter))
        except ValueError:
            return 0

    return max(_DELIMITERS, key=lambda delimiter: (num_cells(delimiter), delimiter == ","))


def _first_line_names_columns(path: str, format: str, options: dict[str, Any]) -> bool:
    """Return whether the first line looks like names: short, no numbers, and not found again in their columns."""
    try:
        rows, _ = partition(islice(read_rows(path, format, **options), _FIRST_ROWS))
    except ValueError as error:
        # Two cells with the same text, as in a table of pairs without names, unless some are usual names.
        usual = [name for name in first_record(path, format, **options) if is_usual_name(name)]
        if "same name" in str(error) and len(usual) < _USUAL_NAMES:
            return False
        raise UserError(str(error), hint="rename one of them") from None
    if not rows:
        return True
    names = list(rows[0].cells)
    return not any(
        len(name) > _MAX_NAME or is_number(name) or any(row.cells[name] == name for row in rows)
        for name in names
    )


def _filled(cells: Mapping[str, object]) -> dict[str, object]:
    return {name: cell for name, cell in cells.items() if cell is not None and str(cell).strip()}


def _with_lists(rows: list[TableRow], names: Sequence[str]) -> list[TableRow]:
    """Return the rows with parsed lists and records, in columns that hold nothing else."""
    for name in names:
        cells = [row.cells[name] for row in rows if name in row.cells]
        parsed = list(itertools.takewhile(lambda value: value is not None, map(_parsed, cells)))
        if len(parsed) < len(cells):
            continue
        waiting = iter(parsed)
        for row in rows:
            if name in row.cells:
                row.cells[name] = next(waiting)
    return rows


def _parsed(cell: object) -> object:
    """Return the list or record that a cell is; None for other text."""
    return parsed_cell(cell) if isinstance(cell, str) else cell
