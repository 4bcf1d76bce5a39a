"""Predictions for the rows of a table, as further columns of it."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from t5x_like.evaluation.row_predictors import RowPrediction, RowPredictor
from t5x_like.evaluation.table_pieces import TablePieces, TablePrediction
from t5x_like.io.progress import Progress
from t5x_like.io.table_output import TableOutput
from t5x_like.io.writer_lock import exclusive_writer
from t5x_like.text.tasks.rows import BadRow, RawRow, RowPolicy

_log = logging.getLogger(__name__)

_BATCHES_AT_ONCE = 16  # written together: a killed process loses as many


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
    identity: Mapping[str, object] | None = None,
    schema: object = None,
    write: Callable[[str], object] | None = None,
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
    pieces = TablePieces(predictor, table, RowPolicy(table.on_bad_row))
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
    pieces = TablePieces(predictor, table, policy := RowPolicy(table.on_bad_row))
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
    parts: TableOutput, pieces: TablePieces, read: Iterator[tuple[list[Any], list[Any]]], schema: Any
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
