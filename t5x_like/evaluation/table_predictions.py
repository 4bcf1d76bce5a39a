"""Predictions for the rows of a table, as further columns of it."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple

from t5x_like.evaluation.row_predictors import RowPrediction, RowPredictor
from t5x_like.io.progress import Progress
from t5x_like.io.table_output import TableFormat, TableOutput, table_text
from t5x_like.io.writer_lock import exclusive_writer
from t5x_like.text.tasks.rows import BadRow, RawRow, RowPolicy, convert

_log = logging.getLogger(__name__)

_BATCHES_AT_ONCE = 16  # written together: a killed process loses as many


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

    def cells(self, found: RowPrediction, predictor: RowPredictor) -> dict[str, Any]:
        """Return the columns of a prediction.

        Args:
          found: Prediction of a row.
          predictor: Model that predicted it.
        """
        is_text = self.format in ("csv", "tsv")
        is_line = is_text and isinstance(found.prediction, list)
        cells: dict[str, Any] = {self.prediction_column: found.text if is_line else found.prediction}
        if predictor.has_probabilities:
            cells[self.probability_column] = found.probability
        if not self.with_scores:
            return cells
        if is_text and predictor.class_names and isinstance(found.scores, Mapping):
            named = {f"{self.probability_column}_{name}": share for name, share in found.scores.items()}
            return cells | named
        return cells | {self.scores_column: found.scores}


class TableCounts(NamedTuple):
    """Rows of a table that has predictions, and rows that were left out."""

    num_rows: int
    num_skipped: int


def predict_table(
    predictor: RowPredictor,
    rows: Iterable[RawRow | BadRow],
    table: TablePrediction,
    *,
    output: str | None = None,
    identity: Mapping[str, Any] | None = None,
    schema: Any = None,
    write: Callable[[str], Any] | None = None,
) -> TableCounts:
    """Predict the rows of a table piece by piece, and write them with their predictions.

    A killed call leaves finished pieces in ``OUTPUT.partial``. The same call continues after them, and the table is the
    same to the byte.

    Args:
      predictor: The model.
      rows: Rows of the table.
      table: Form of the table to write.
      output: File to write; None gives text to ``write``.
      identity: What the predictions depend on, such as the weights, as JSON values.
      schema: Schema of a parquet table, as pyarrow has it.
      write: Takes the text of each piece, if there is no output.

    Raises:
      ValueError: A row is bad, a column of the name of a prediction is there already, or ``OUTPUT.partial`` belongs to
        other rows, weights or settings.
    """
    pieces = _Pieces(predictor, table, RowPolicy(table.on_bad_row))
    rows = pieces.with_room(rows)
    if output is None:
        assert write is not None, "the caller gives one of both"
        for values, read in pieces.of(rows, predictor.batch_size):
            write(pieces.text(pieces.predicted(values, read)))
    else:
        size = predictor.batch_size * _BATCHES_AT_ONCE
        # The treatment of bad rows may change: finished parts had none, or none that weren't left out.
        chosen = {name: str(value) for name, value in vars(table).items() if name != "on_bad_row"}
        settings = {**chosen, "rows of a part": size}
        with exclusive_writer(f"{output}.partial", "table"):
            parts = TableOutput(output, table.format, {**settings, **(identity or {})})
            _write_parts(parts, pieces, pieces.of(rows, size), schema)
    policy = pieces.policy
    if not policy.num_rows and not policy.num_skipped:
        raise ValueError(f"{(identity or {}).get('input', 'the table')}: there is no row to predict")
    if policy.num_skipped:
        _log.warning("%s", policy)
    _warn_of_cut(pieces.num_cut)
    return TableCounts(policy.num_rows, policy.num_skipped)


def predict_rows(
    predictor: RowPredictor,
    rows: Iterable[RawRow | BadRow],
    *,
    columns: Mapping[str, str] = {},
    with_scores: bool = False,
) -> list[RowPrediction]:
    """Return a prediction for each row, with the checks of ``predict_table``.

    Args:
      predictor: The model.
      rows: Rows of any source.
      columns: Column of the rows for each of the model's input columns that has another name there.
      with_scores: Require probabilities.

    Raises:
      ValueError: A row is bad, or there are no probabilities.
    """
    table = TablePrediction(format="jsonl", columns=columns, with_scores=with_scores, on_bad_row="skip")
    pieces = _Pieces(predictor, table, policy := RowPolicy(table.on_bad_row))
    read = [row for _, piece in pieces.of(rows, predictor.batch_size) for row in piece]
    if policy.num_skipped:
        raise ValueError(
            f"{policy.num_skipped} of {policy.num_skipped + policy.num_rows} rows can't be predicted; "
            f"{policy.first_skipped[0]}"
        )
    predictions = predictor.predict(read) if read else []
    _warn_of_cut(sum(each.is_cut for each in predictions))
    return predictions


def _warn_of_cut(num_cut: int) -> None:
    if num_cut:
        _log.warning("%d rows are longer than the model's inputs and were cut", num_cut)


def _write_parts(
    parts: TableOutput, pieces: "_Pieces", read: Iterator[tuple[list[Any], list[Any]]], schema: Any
) -> None:
    num_before = parts.num_parts
    with Progress("predicting", None, "rows") as progress:
        for index, (values, rows) in enumerate(read):
            if index < num_before:
                pieces.name_columns(values)
                if index == num_before - 1 and pieces.checksum != parts.checksum:
                    raise parts.refusal("from other rows")
                progress.skip(pieces.policy.num_rows)
                continue
            predicted = pieces.predicted(values, rows)
            parts.add(predicted, pieces.text(predicted), pieces.checksum, schema)
            progress.add(len(rows))
    if pieces.num_pieces < num_before:
        raise parts.refusal("from more rows")
    if pieces.num_pieces:
        parts.finish()


class _Pieces:
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
    ) -> Iterator[tuple[list[Mapping[str, Any]], list[Any]]]:
        """Yield the values of at most ``size`` good rows, and these as the model reads them."""
        rows = iter(rows)
        while piece := list(islice(rows, size)):
            self._digest.update("".join(map(repr, piece)).encode("utf-8", "backslashreplace"))
            self.num_pieces += 1
            good = list(self.policy.good_rows(convert(piece, self._read)))
            yield [raw.values for raw, _ in good], [row for _, row in good]

    def _read(self, raw: RawRow) -> tuple[RawRow, Any]:
        try:
            row = self._predictor.read(self._renamed(raw.values))
            self._refuse_blank(raw.values)
        except ValueError as error:
            raise ValueError(self._with_names_of_table(str(error))) from None
        return raw, row

    def predicted(self, values: Sequence[Mapping[str, Any]], read: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the values with the columns of the predictions."""
        found = self._predictor.predict(read) if read else []
        self.num_cut += sum(each.is_cut for each in found)
        return [
            {**row, **self._table.cells(each, self._predictor)}
            for row, each in zip(values, found, strict=True)
        ]

    def text(self, rows: Sequence[Mapping[str, Any]]) -> str:
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

    def name_columns(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Take the names of the columns from the first row; return whether these are the first rows."""
        if self._names or not rows:
            return False
        added = self._table.added_columns(self._predictor)
        self._names = [*(name for name in rows[0] if name not in added), *added]
        return True

    def _renamed(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
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

    def _refuse_blank(self, values: Mapping[str, Any]) -> None:
        names = [self._table.columns.get(name, name) for name in self._predictor.input_columns]
        cells = [values[name] for name in names if name in values]
        if cells and all(
            not cell.strip() if isinstance(cell, str) else isinstance(cell, list) and not cell
            for cell in cells
        ):
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

        def refuse_taken(row: RawRow) -> None:
            if taken := [name for name in added if name in row.values]:
                raise ValueError(
                    f"{row.location}: the table has a column {taken[0]!r} already; give another prediction_column=NAME"
                )

        return convert(rows, lambda row: row, check=refuse_taken)
