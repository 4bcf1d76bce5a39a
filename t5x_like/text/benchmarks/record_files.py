"""Rows of JSON lines, tables, parquet and Arrow files in a benchmark's own columns, with labels as class ids."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from t5x_like.io.files import json_value
from t5x_like.io.text_encoding import text_of
from t5x_like.text.benchmarks.hugging_face_files import hub_patterns, read_columns
from t5x_like.text.benchmarks.source import FileLayout
from t5x_like.text.tasks.row_files import ending_of, read_raw_rows
from t5x_like.text.tasks.rows import BadRow, RawRow, expand
from t5x_like.text.templates import RowValues

# Converts one record to rows.
Parse = Callable[[Mapping[str, Any]], Iterator[dict[str, Any]]]

LABEL = "label"


@dataclass(frozen=True, kw_only=True)
class RecordFiles:
    """Reader of a split's file that converts each record to rows.

    Attributes:
      parse: Converts a record; a label is kept as in the file, under ``label``.
      classes: Label words in the order of class ids.
      unlabeled: Words for a missing label.
      may_lack_labels: Allow missing labels in all splits, not only in test splits.
      columns: Column names of a table without header line.
      format: File format; by default the file's extension.
    """

    parse: Parse
    classes: tuple[str, ...] = ()
    unlabeled: tuple[str, ...] = ("",)
    may_lack_labels: bool = False
    columns: Sequence[str] = ()
    format: str = ""

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """Read rows; see ``source.Reader``."""
        may_lack = self.may_lack_labels or split.startswith("test")

        def rows(record: RawRow) -> Iterator[RawRow]:
            for row in self.parse(record.values):
                if self.classes:
                    row[LABEL] = self._number(row.get(LABEL), may_lack=may_lack)
                yield RawRow(row, record.location)

        return parse_records(self._records(file), rows)

    def _records(self, file: str) -> Iterator[RawRow | BadRow]:
        kind = self.format or ending_of(file)
        if kind in ("parquet", "arrow"):
            yield from read_columns(file)
        elif kind in ("csv", "tsv"):
            yield from read_raw_rows(file, kind, columns=self.columns)
        else:
            yield from json_objects(file)

    def _number(self, label: Any, *, may_lack: bool) -> int:
        """Return a label's class id.

        Raises:
          ValueError: The label is outside the set, or is missing where it must not.
        """
        if str(label) in self.classes:
            return self.classes.index(str(label))
        if label is None or label in self.unlabeled or label in (-1, "-1"):
            if may_lack:
                return -1
            raise ValueError("no label; only rows of a test split may lack it")
        numbers = (
            []
            if self.classes[0].isdigit()
            else [str(class_index) for class_index in range(len(self.classes))]
        )
        if str(label) in numbers:
            return int(label)
        raise ValueError(f"the label {label!r} is outside the set: {', '.join(self.classes)}")


def json_objects(file: str) -> Iterator[RawRow | BadRow]:
    """Yield the objects of a file of JSON lines, or of a file that is a single object."""
    if file.endswith((".json", ".txt")):
        whole = _whole(file)
        if whole is not None:
            yield whole
            return
    yield from read_raw_rows(file, "jsonl")


def parse_records(
    records: Iterable[RawRow | BadRow],
    parse: Callable[[RawRow], Iterable[RawRow | BadRow]],
    *,
    record: str = "",
    data_set: str = "this task",
) -> Iterator[RawRow | BadRow]:
    """Yield the rows of each record; errors of other columns or types make it a bad row.

    Args:
      records: Records of a file.
      parse: Function from a record to rows.
      record: Name of a record in messages; empty for a row with columns.
      data_set: Name of the data set in messages.
    """

    def rows(raw: RawRow) -> Iterator[RawRow | BadRow]:
        try:
            yield from parse(raw)
        except KeyError as error:
            columns = ", ".join(raw.values) or "none"
            if record:
                raise ValueError(f"the {record} has no {error}, only {columns}") from None
            raise ValueError(f"no column {error}; the columns are {columns}") from None
        except (TypeError, AttributeError, IndexError):
            shown = str(raw.values)[:120]
            raise ValueError(f"the values are not of the kinds that {data_set}'s have: {shown}") from None

    return expand(records, rows)


def records_at_top(file: str, name: str = "", *, data_set: str) -> list[RawRow]:
    """Return the members of a list at the top of a JSON file, each with its place.

    Args:
      file: Path of the file.
      name: Key of the list in the file's object; empty if the file is a list.
      data_set: Name of the data set in messages.

    Raises:
      ValueError: The file is not JSON, or has no such list.
    """
    try:
        value = json_value(text_of(file))
        members = value[name] if name else value
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{file}:{error.lineno}: invalid JSON: {error.msg} at column {error.colno}"
        ) from None
    except (KeyError, TypeError):
        members = None
    if not isinstance(members, list):
        if name:
            problem = f": no list {name!r}, which {data_set}'s JSON has at its top"
        else:
            problem = f" has no list at its top, which {data_set}'s JSON is"
        raise ValueError(f"{file}{problem}; is it another file?")
    return [RawRow(member, f"{file}:{name}[{index}]") for index, member in enumerate(members)]


def _whole(file: str) -> RawRow | None:
    try:
        value = json_value(text_of(file))
    except ValueError:
        return None  # JSON lines, whose faults are reported by line
    return RawRow(value, f"{file}:1") if isinstance(value, dict) else None


def renamed(**columns: str) -> Parse:
    """Return a parser that renames columns: ``renamed(premise="sentence1")``; the label may be missing."""

    def parse(record: RowValues) -> Iterator[dict[str, object]]:
        row = {name: record[column] for name, column in columns.items() if name != LABEL}
        if LABEL in columns:
            row[LABEL] = record.get(columns[LABEL])
        yield row

    return parse


def hub_layout(
    folder: str, splits: Sequence[str], read: RecordFiles, *, names: Mapping[str, str] | None = None
) -> FileLayout:
    """Return the layout of parquet and Arrow files as Hugging Face's hub and ``save_to_disk`` write them.

    Args:
      folder: Folder of the files.
      splits: Names of the splits.
      read: Reader of the files.
      names: The hub's names of splits, if they differ.
    """
    files = {split: hub_patterns(folder, (names or {}).get(split, split)) for split in splits}
    return FileLayout(files=files, read=read, name="Hugging Face files")
