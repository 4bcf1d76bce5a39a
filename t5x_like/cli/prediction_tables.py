"""Tables of ``t5x-like predict``: what flags and names of files say about them, and their rows with predictions."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t5x_like.gin_config.user_error import UserError
from t5x_like.io.table_output import TABLE_FORMATS
from t5x_like.text.tasks.row_files import SEPARATORS, ending_of, read_raw_rows
from t5x_like.text.tasks.rows import BadRow, RawRow

_INPUT_FORMATS = (*TABLE_FORMATS, "arrow")
_STANDARD_INPUT = "-"
_SETTINGS = ("format", "delimiter", "columns", "text", "scores", "prediction_column", "on_bad_row")


class PredictedTable(NamedTuple):
    """A table to predict.

    Attributes:
      file: Path, or ``-`` for standard input.
      format: Format of the table.
      output_format: Format to write.
    """

    file: str
    format: str
    output_format: Any

    @property
    def name(self) -> str:
        """Name in messages."""
        return "stdin" if self.file == _STANDARD_INPUT else self.file

    def rows(self, columns: Sequence[str], delimiter: str) -> Iterator[RawRow | BadRow]:
        """Yield the rows.

        Args:
          columns: Columns that the model reads.
          delimiter: Character between the cells of a line.
        """
        stream = sys.stdin.buffer if self.file == _STANDARD_INPUT else None
        return read_raw_rows(self.name, self.format, columns=columns, delimiter=delimiter, stream=stream)

    def other_separator(self, names: Sequence[str], delimiter: str) -> str | None:
        """Return the separator of a CSV file whose only column has a name with another separator in it.

        Args:
          names: Columns by ``delimiter``.
          delimiter: Separator by which the table was read.
        """
        if self.format != "csv" or self.file == _STANDARD_INPUT or len(names) != 1:
            return None
        separator = max(SEPARATORS, key=names[0].count)
        return separator if separator != delimiter and separator in names[0] else None

    def schema(self) -> Any:
        """Return pyarrow's types of the columns of a parquet file; None for other tables."""
        if self.format != "parquet" or self.file == _STANDARD_INPUT:
            return None
        import pyarrow
        import pyarrow.parquet

        try:
            return pyarrow.parquet.read_schema(self.file)
        except (pyarrow.ArrowException, OSError):  # its rows are refused with the reason
            return None


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of tables."""
    group = parser.add_argument_group("tables")
    group.add_argument("--format", choices=_INPUT_FORMATS, help="format of the table (by its name)")
    group.add_argument("--delimiter", metavar="CHARACTER", help="between the cells of CSV (a comma)")
    group.add_argument(
        "--columns",
        nargs="+",
        metavar="NAME",
        help="names of the columns of CSV or TSV without a line of names (the task's)",
    )
    group.add_argument(
        "--text",
        nargs="+",
        metavar="COLUMN",
        help="the columns of the model's texts, in its order (those of the task, or text, sentence, …)",
    )
    group.add_argument(
        "--scores", action="store_true", help="the probabilities of all classes, not only the predicted one's"
    )
    group.add_argument("--prediction_column", metavar="NAME", help="name of the new column (prediction)")
    group.add_argument("--on_bad_row", choices=["fail", "skip"], help="skip leaves bad rows out (the task's)")


def table_settings(arguments: argparse.Namespace) -> list[str]:
    """Return the flags of tables that are given."""
    return [name for name in _SETTINGS if getattr(arguments, name)]


def table_of(arguments: argparse.Namespace) -> PredictedTable | None:
    """Return the table that the flags name; None if there are texts or lines.

    Raises:
      UserError: Two tables, an unknown format, no such file, or one that would be overwritten.
    """
    named = [each for each in arguments.input if _is_table(each, arguments.format)]
    if not named:
        return None
    if len(arguments.input) > 1:
        raise UserError(f"--input {named[0]} is a table; give one table and no other input")
    (file,) = named
    if arguments.prediction_column == "":
        raise UserError("--prediction_column is empty; give the name of the new column")
    format = arguments.format or ending_of(file)
    if file == _STANDARD_INPUT and not arguments.format:
        raise UserError("a table on stdin has no name; say its format: --format csv, tsv, jsonl or parquet")
    if file != _STANDARD_INPUT and not Path(file).is_file():
        raise UserError(f"--input {file}: there is no such file")
    if arguments.columns and format not in ("csv", "tsv"):
        raise UserError(f"--columns is for CSV and TSV without a line of names; {file} is {format}")
    output_format = "parquet" if format == "arrow" else format
    if arguments.output:
        if os.path.realpath(arguments.output) == os.path.realpath(file):
            raise UserError(f"--output {arguments.output} is the input; name another file")
        ending = Path(arguments.output).suffix.removeprefix(".").lower()
        output_format = {"json": "jsonl"}.get(ending, ending)
        if output_format not in TABLE_FORMATS:
            raise UserError(
                f"--output {arguments.output}: a name that ends with {', '.join('.' + each for each in TABLE_FORMATS)} "
                "is needed"
            )
    elif output_format == "parquet":
        raise UserError(f"{format} can't be printed; give --output NAME.parquet, NAME.csv or another")
    return PredictedTable(file, format, output_format)


def _is_table(file: str, format: str | None) -> bool:
    """Return whether ``--input`` names a table; otherwise it is a text.

    Raises:
      UserError: It names a file that is no table by its name.
    """
    if file == _STANDARD_INPUT:
        return True
    is_named = ending_of(file) in _INPUT_FORMATS
    if not os.path.isfile(file):
        return is_named and not any(map(str.isspace, file))
    if not is_named and format is None:
        raise UserError(
            f"--input {file} is a file whose name is of no table",
            hint=f"say its format by --format {', '.join(_INPUT_FORMATS)}; --input_file reads a text from each line",
        )
    return True
