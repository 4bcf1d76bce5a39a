"""Rows of JSON lines, tables, parquet and Arrow files in a benchmark's own columns, with labels as class ids."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from t5x_like.io.files import json_value
from t5x_like.io.text_encoding import text_of
from t5x_like.text.benchmarks.hugging_face_files import hub_patterns, read_columns
from t5x_like.text.benchmarks.source import FileLayout
from t5x_like.text.benchmarks.super_glue_json import object_of
from t5x_like.text.tasks.row_files import decode_line, ending_of, lines_of, read_rows
from t5x_like.text.tasks.rows import BadRow, RawRow, Row

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
        for record in self._records(file):
            if isinstance(record, BadRow):
                yield record
                continue
            values, place = record
            try:
                for row in self.parse(values):
                    if self.classes:
                        row[LABEL] = self._number(row.get(LABEL), may_lack=may_lack)
                    yield RawRow(row, place)
            except KeyError as error:
                yield BadRow(f"no column {error}; the columns are {', '.join(values) or 'none'}", place)
            except (TypeError, AttributeError):
                yield BadRow(
                    f"the values are not of the kinds that this task's have: {str(values)[:120]}", place
                )
            except ValueError as error:
                yield BadRow(str(error), place)

    def _records(self, file: str) -> Iterator[RawRow | BadRow]:
        kind = self.format or ending_of(file)
        if kind in ("parquet", "arrow"):
            yield from read_columns(file)
        elif kind in ("csv", "tsv"):
            for row in read_rows(file, kind, columns=self.columns):
                yield RawRow(row.cells, row.place) if isinstance(row, Row) else row
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
        numbers = [] if self.classes[0].isdigit() else [str(number) for number in range(len(self.classes))]
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
    for number, line in lines_of(file):
        place = f"{file}:{number}"
        value = object_of(decode_line(line, file, number), place)
        if value is not None:
            yield value if isinstance(value, BadRow) else RawRow(value, place)


def list_at_top(file: str, name: str, *, data_set: str) -> list[Any]:
    """Return the list ``name`` of the object that a JSON file holds.

    Args:
      file: Path of the file.
      name: Key of the list.
      data_set: Name for messages.

    Raises:
      ValueError: The file is not JSON, or has no such list.
    """
    try:
        return list(json_value(text_of(file))[name])
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{file}:{error.lineno}: invalid JSON: {error.msg} at column {error.colno}"
        ) from None
    except (KeyError, TypeError):
        raise ValueError(
            f"{file}: no list {name!r}, which {data_set}'s JSON has at its top; is it another file?"
        ) from None


def _whole(file: str) -> RawRow | None:
    try:
        value = json_value(text_of(file))
    except ValueError:
        return None  # JSON lines, whose faults are reported by line
    return RawRow(value, f"{file}:1") if isinstance(value, dict) else None


def renamed(**columns: str) -> Parse:
    """Return a parser that renames columns: ``renamed(premise="sentence1")``; the label may be missing."""

    def parse(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        found = {name: record[theirs] for name, theirs in columns.items() if name != LABEL}
        if LABEL in columns:
            found[LABEL] = record.get(columns[LABEL])
        yield found

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
