"""Form of a table with predictions, and its rows piece by piece."""

import hashlib
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from t5x_like.evaluation.row_predictors import RowPrediction, RowPredictor
from t5x_like.io.table_output import TableFormat, table_text
from t5x_like.text.tasks.rows import BadRow, RawRow, RowPolicy, convert
from t5x_like.text.templates import RowValues


@dataclass(frozen=True, kw_only=True)
class TablePrediction:
    """Form of a table with predictions.

    Attributes:
      format: Format to write.
      columns: Column of the table for each of the model's input columns that has another name there.
      prediction_column: Name of the column of predictions. Others are ``probability`` and ``scores``, or begin with
        this name if it is another than "prediction".
      with_scores: Add the probabilities of all classes: a column for each in CSV and TSV, else one object.
      on_bad_row: "fail" stops at the first bad row, "skip" leaves bad rows out and counts them.
      delimiter: Character between the cells of CSV.
      has_header: CSV and TSV begin with the names of the columns.
    """

    format: TableFormat
    columns: Mapping[str, str] = field(default_factory=dict)
    prediction_column: str = "prediction"
    with_scores: bool = False
    on_bad_row: Literal["fail", "skip"] = "fail"
    delimiter: str = ","
    has_header: bool = True

    @property
    def probability_column(self) -> str:
        """Name of the column of probabilities."""
        return self._named("probability")

    @property
    def scores_column(self) -> str:
        """Name of the column of the classes' probabilities."""
        return self._named("scores")

    def _named(self, name: str) -> str:
        return name if self.prediction_column == "prediction" else f"{self.prediction_column}_{name}"

    def added_columns(self, predictor: RowPredictor) -> list[str]:
        """Return the names of the columns of a prediction, in order."""
        added = [self.prediction_column]
        added += [self.probability_column] if predictor.has_probabilities else []
        if not self.with_scores:
            return added
        if self.format in ("csv", "tsv") and predictor.class_names:
            return added + [f"{self.probability_column}_{name}" for name in predictor.class_names]
        return [*added, self.scores_column]

    def cells(self, row_prediction: RowPrediction, predictor: RowPredictor) -> dict[str, object]:
        """Return the columns of a prediction.

        Args:
          row_prediction: Prediction of a row.
          predictor: Model that predicted it.
        """
        is_text = self.format in ("csv", "tsv")
        is_line = is_text and isinstance(row_prediction.prediction, list)
        cells: dict[str, object] = {
            self.prediction_column: row_prediction.text if is_line else row_prediction.prediction
        }
        if predictor.has_probabilities:
            cells[self.probability_column] = row_prediction.probability
        if not self.with_scores:
            return cells
        if is_text and predictor.class_names and isinstance(row_prediction.scores, Mapping):
            named = {
                f"{self.probability_column}_{name}": share for name, share in row_prediction.scores.items()
            }
            return {**cells, **named}
        return {**cells, self.scores_column: row_prediction.scores}


class TablePieces:
    """Pieces of a table: rows as read by the model, their predictions, and their text.

    Attributes:
      policy: Counter of bad rows.
      checksum: Checksum of all rows so far.
      num_pieces: Pieces so far.
      num_cut: Rows that were longer than the model reads.
    """

    def __init__(self, predictor: RowPredictor, table: TablePrediction, policy: RowPolicy) -> None:
        if table.with_scores and not predictor.has_probabilities:
            raise ValueError("scores=True needs classes: this model predicts a number or writes a text")
        self._predictor, self._table, self.policy = predictor, table, policy
        self._digest = hashlib.blake2b(digest_size=16)
        self.num_pieces = self.num_cut = 0
        self._names: list[str] = []

    @property
    def checksum(self) -> str:
        return self._digest.hexdigest()

    def of(
        self, rows: Iterable[RawRow | BadRow], size: int
    ) -> Iterator[tuple[list[RowValues], list[object]]]:
        """Yield the values of at most ``size`` good rows, and these as the model reads them.

        Args:
          rows: Rows of the table.
          size: Rows of a piece, bad ones included.
        """
        rows = iter(rows)
        while piece := list(islice(rows, size)):
            self._digest.update("".join(map(repr, piece)).encode("utf-8", "backslashreplace"))
            self.num_pieces += 1
            good = list(self.policy.good_rows(convert(piece, self._read)))
            yield [raw.values for raw, _ in good], [row for _, row in good]

    def _read(self, raw: RawRow) -> tuple[RawRow, object]:
        try:
            folder = posixpath.dirname(raw.location)
            row = self._predictor.read(self._renamed(raw.values), folder=folder)
            self._refuse_blank(raw.values)
        except ValueError as error:
            raise ValueError(self._with_names_of_table(str(error))) from None
        return raw, row

    def predicted(self, values: Sequence[RowValues], read: Sequence[object]) -> list[dict[str, object]]:
        """Return the values with the columns of the predictions.

        Args:
          values: Cells of each row.
          read: The rows as the model reads them.
        """
        predictions = self._predictor.predict(read) if read else []
        self.num_cut += sum(each.is_cut for each in predictions)
        return [
            {**row, **self._table.cells(each, self._predictor)}
            for row, each in zip(values, predictions, strict=True)
        ]

    def text(self, rows: Sequence[Mapping[str, object]]) -> str:
        """Return rows as text; the first ones name the columns.

        Raises:
          ValueError: A row has a column that the first one lacks, where the format needs the same in all.
        """
        table = self._table
        if table.format == "parquet":
            return ""
        is_first = self.name_columns(rows)
        if table.format != "jsonl":
            for row in rows:
                if more := [name for name in row if name not in self._names]:
                    raise ValueError(
                        f"column {more[0]!r} is not in the first row, and {table.format} has the same columns in all "
                        "rows; write JSONL instead: output=NAME.jsonl"
                    )
        return table_text(
            rows,
            table.format,
            self._names,
            delimiter=table.delimiter,
            has_header=is_first and table.has_header,
        )

    def name_columns(self, rows: Sequence[Mapping[str, object]]) -> bool:
        """Take the names of the columns from the first row; return whether these are the first rows."""
        if self._names or not rows:
            return False
        added = self._table.added_columns(self._predictor)
        self._names = [*(name for name in rows[0] if name not in added), *added]
        return True

    def _renamed(self, values: RowValues) -> RowValues:
        names = self._table.columns
        if not names:
            return values
        if missing := [name for name in names.values() if name not in values]:
            raise ValueError(f"no column {missing[0]!r}; the columns are {', '.join(values) or 'none'}")
        return {**values, **{name: values[column] for name, column in names.items()}}

    def _with_names_of_table(self, message: str) -> str:
        for name, column in self._table.columns.items():
            message = message.replace(f"column {name!r}", f"column {column!r}")
        return message

    def _refuse_blank(self, values: RowValues) -> None:
        names = [self._table.columns.get(name, name) for name in self._predictor.input_columns]
        cells = [values[name] for name in names if name in values]
        if cells and all((cell.strip() if isinstance(cell, str) else cell) in ("", []) for cell in cells):
            columns = f"column{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"
            raise ValueError(
                f"{columns} {'are' if len(names) > 1 else 'is'} empty; there is nothing to predict"
            )

    def with_room(self, rows: Iterable[RawRow | BadRow]) -> Iterator[RawRow | BadRow]:
        """Yield rows without columns of the names of a prediction.

        Raises:
          ValueError: A row has such a column.
        """
        added = self._table.added_columns(self._predictor)

        def refuse_present(row: RawRow) -> None:
            if present := [name for name in added if name in row.values]:
                raise ValueError(
                    f"{row.location}: the table has a column {present[0]!r} already; "
                    "give another prediction_column=NAME"
                )

        return convert(rows, lambda row: row, check=refuse_present)
