"""Records of CSV files, of which a cell in double quotes may span several lines.

RFC 4180 (https://www.rfc-editor.org/rfc/rfc4180). As in Python's and pandas' readers, a double quote is an ordinary
character of a cell that doesn't begin with one.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from t5x_like.text.tasks.rows import BadRow
from t5x_like.text.tasks.text_lines import Line

_SEPARATOR_LINE = re.compile(r'"?sep=([^"])"?', re.IGNORECASE)


class Record(NamedTuple):
    """Record of a table.

    Attributes:
      cells: Text of each cell.
      location: Source of its first line (``file:line``).
    """

    cells: list[str]
    location: str


def split_csv(lines: Iterable[Line], delimiter: str) -> Iterator[Record | BadRow]:
    """Yield the records, good and bad.

    Lines that are blank between records are ignored, and so is Excel's first line ``sep=;``, whose character replaces
    ``delimiter``. A line that can't be decoded spoils its whole record and no other. Line breaks inside of quotes stay
    as the file has them.

    Args:
      lines: Lines of a file.
      delimiter: Character between cells.
    """
    record: list[str] = []
    damage: BadRow | None = None
    is_open, location = False, ""
    for line in lines:
        if line.number == 1 and not line.fault and (separator := excel_separator(line.text)):
            delimiter = _agreed(separator, delimiter, line.file)
            continue
        if line.fault and not line.content:  # a gap of unknown length
            yield line.fault
            record, damage, is_open = [], None, False
            continue
        if not record:
            location = line.location
            if not line.text.strip(" "):
                continue
        damage = damage or line.fault
        record.append(line.text + ("\r\n" if line.content.endswith(b"\r\n") else "\n"))
        is_open = ends_inside_quotes(line.text, delimiter, is_inside=is_open)
        if not is_open:
            yield damage or _record(record, location, delimiter)
            record, damage = [], None
    if record:
        yield damage or BadRow("a double quote that starts in this record is never closed", location)


def excel_separator(line: str) -> str | None:
    """Return the character between cells that Excel's first line names, such as ``sep=;``; ``None`` for other lines."""
    named = _SEPARATOR_LINE.fullmatch(line)
    return named[1] if named else None


def _agreed(separator: str, delimiter: str, file: str) -> str:
    if delimiter not in (",", separator):
        raise ValueError(
            f"{file}:1: sep={separator} says that {separator!r} is between cells, and delimiter={delimiter!r} was "
            "given; leave delimiter out, or remove the line"
        )
    return separator


def ends_inside_quotes(line: str, delimiter: str, *, is_inside: bool) -> bool:
    """Return whether a cell in double quotes continues on the next line.

    Args:
      line: A line of a record.
      delimiter: Character between cells.
      is_inside: Whether such a cell continues on this line.
    """
    opening = f'{delimiter}"'
    at = 0
    if not is_inside:
        at = 0 if line.startswith('"') else line.find(opening) + 1
        if at == 0 and not line.startswith('"'):
            return False
        at += 1
    while True:
        at = line.find('"', at)
        if at < 0:
            return True
        if line.startswith('""', at):
            at += 2
            continue
        at = line.find(opening, at + 1)
        if at < 0:
            return False
        at += len(opening)


def _record(record: list[str], location: str, delimiter: str) -> Record | BadRow:
    csv.field_size_limit(2**31 - 1)  # the default of 128 KiB is too short for documents
    try:
        cells = next(csv.reader(["".join(record).rstrip("\r\n")], delimiter=delimiter, strict=True))
        return Record(cells, location)
    except csv.Error as error:
        if any("\r" in text.rstrip("\r\n") for text in record):
            reason = (
                "a line break is a carriage return alone; convert them: tr '\\r' '\\n' < FILE > OTHER_FILE"
            )
            return BadRow(reason, location)
        return BadRow(f"not CSV: {error}", location)


def named_columns(names: Sequence[str]) -> list[str]:
    """Return names of columns, where those without a name get the one that pandas gives, such as ``Unnamed: 2``."""
    return [name if name.strip() else f"Unnamed: {index}" for index, name in enumerate(names)]


def refuse_equal_names(names: Sequence[str], location: str) -> None:
    """Check that names of columns differ; a row would have only the last of two.

    Args:
      names: Names of columns.
      location: File, or file and line, for the message.

    Raises:
      ValueError: Two are equal.
    """
    if len(set(names)) < len(names):
        raise ValueError(f"{location}: two columns have the same name: {list(names)}")
