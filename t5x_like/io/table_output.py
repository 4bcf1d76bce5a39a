"""Tables as text or parquet, written in parts: a table has its name only when it is whole."""

import csv
import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from etils import epath

from t5x_like.io.files import as_path, read_json, write_bytes, write_json

TableFormat = Literal["csv", "tsv", "jsonl", "parquet"]
TABLE_FORMATS: tuple[str, ...] = get_args(TableFormat)
_PROGRESS = "progress.json"
_TSV_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})  # the format has no quotes


def table_text(
    rows: Sequence[Mapping[str, object]],
    format: TableFormat,
    columns: Sequence[str],
    *,
    delimiter: str = ",",
    has_header: bool = False,
) -> str:
    """Return rows as text of a table.

    Args:
      rows: Values by column; lists and objects become JSON in CSV and TSV.
      format: "csv", "tsv" or "jsonl".
      columns: Columns of CSV and TSV, in order.
      delimiter: Character between the cells of CSV.
      has_header: Write a line with the columns first.
    """
    if format == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
    lines = [[_cell(row.get(name)) for name in columns] for row in rows]
    lines = [list(columns), *lines] if has_header else lines
    if format == "tsv":
        return "".join("\t".join(cell.translate(_TSV_ESCAPES) for cell in line) + "\n" for line in lines)
    text = io.StringIO()
    for line in lines:
        # Without it, a carriage return in a cell would end the line for some readers.
        quoting = csv.QUOTE_ALL if any("\r" in cell for cell in line) else csv.QUOTE_MINIMAL
        csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=quoting).writerow(line)
    return text.getvalue()


def _cell(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str) if _is_json(value) else str(value)


def _is_json(value: object) -> bool:
    return isinstance(value, bool | int | float | list | dict)


class TableOutput:
    """A table whose parts are kept next to it, in ``NAME.partial``, until it is whole.

    Attributes:
      path: Final path.
      num_parts: Parts that are written already.
      checksum: Checksum that was given with the last part; empty without parts.
    """

    def __init__(self, path: str, format: TableFormat, identity: Mapping[str, object]) -> None:
        """Begin a table, or continue one.

        Args:
          path: Final path.
          format: Format of the table.
          identity: What the table depends on, as JSON values.

        Raises:
          ValueError: The parts that are there depend on something else.
        """
        self.path, self._format, self._identity = path, format, dict(identity)
        self._folder = as_path(f"{path}.partial")
        self.num_parts, self.checksum = 0, ""
        if not (self._folder / _PROGRESS).exists():
            return
        progress = read_json(self._folder / _PROGRESS, dict)
        differing = [
            name
            for name in {**progress["identity"], **self._identity}
            if progress["identity"].get(name) != self._identity.get(name)
        ]
        if differing:
            raise self.refusal(f"with another {', '.join(differing)}")
        self.num_parts, self.checksum = progress["num_parts"], progress["checksum"]

    @property
    def folder(self) -> str:
        """Folder of the parts."""
        return os.fspath(self._folder)

    def refusal(self, how: str) -> ValueError:
        """Return an error for parts that can't be continued.

        Args:
          how: What they were made from.
        """
        return ValueError(
            f"{self.folder} holds a part of a table that was made {how}; delete that folder, or choose another output"
        )

    def add(self, rows: Sequence[Mapping[str, Any]], text: str, checksum: str, schema: Any = None) -> None:
        """Write the next part.

        Args:
          rows: Rows, for parquet.
          text: Text of the same rows, for other formats.
          checksum: Checksum of everything that was read so far.
          schema: Types of the columns that are known, as pyarrow has them.
        """
        write_bytes(self._part(self.num_parts), self._bytes(rows, text, schema))
        self.num_parts, self.checksum = self.num_parts + 1, checksum
        progress = {"identity": self._identity, "num_parts": self.num_parts, "checksum": checksum}
        write_json(self._folder / _PROGRESS, progress)

    def finish(self) -> None:
        """Join the parts, give the table its name, and remove them."""
        whole = self._folder / "whole"
        parts = [self._part(part_index) for part_index in range(self.num_parts)]
        if self._format == "parquet":
            _join_parquet(parts, whole)
        else:
            with whole.open("wb") as file:
                for part in parts:
                    with part.open("rb") as opened:
                        shutil.copyfileobj(opened, file)
        whole.replace(self.path)
        self._folder.rmtree()

    def _part(self, part_index: int) -> epath.Path:
        return self._folder / f"{part_index:06d}"

    def _bytes(self, rows: Sequence[Mapping[str, Any]], text: str, schema: Any) -> bytes:
        if self._format != "parquet":
            return text.encode("utf-8")
        import pyarrow
        import pyarrow.parquet

        names = list(dict.fromkeys(name for row in rows for name in row))
        known = {field.name: field.type for field in schema or ()}
        columns = {
            name: pyarrow.array([row.get(name) for row in rows], known.get(name)) for name in names or known
        }
        content = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), content)
        return content.getvalue()


def _join_parquet(parts: Sequence[epath.Path], whole: epath.Path) -> None:
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.unify_schemas(
        [pyarrow.parquet.read_schema(os.fspath(part)) for part in parts], promote_options="permissive"
    )
    with pyarrow.parquet.ParquetWriter(os.fspath(whole), schema) as writer:
        for part in parts:
            table = pyarrow.parquet.read_table(os.fspath(part))
            columns = [
                table[field.name].cast(field.type)
                if field.name in table.column_names
                else pyarrow.nulls(len(table), field.type)
                for field in schema
            ]
            writer.write_table(pyarrow.table(columns, schema=schema))
