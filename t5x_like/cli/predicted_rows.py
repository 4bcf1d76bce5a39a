"""Predictions of ``t5x-like predict`` for tables and lines. Imports JAX."""

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from t5x_like.cli.prediction_tables import PredictedTable
from t5x_like.evaluation.checkpoint_predictor import checkpoint_predictor, num_texts_of, usual_columns
from t5x_like.evaluation.judgments import Judge
from t5x_like.evaluation.reward_judge import reward_judge
from t5x_like.evaluation.row_predictors import RowPredictor
from t5x_like.evaluation.run_predictor import predict_lines, row_predictor
from t5x_like.evaluation.saved_runs import RunPrediction
from t5x_like.evaluation.table_pieces import TablePrediction
from t5x_like.evaluation.table_predictions import predict_table
from t5x_like.gin_config.user_error import UserError, nearest
from t5x_like.inference.generator import GenerationConfig
from t5x_like.io.files import write_jsonl
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.run_weights import steps_of
from t5x_like.pretrained.weight_sources import identity_of, is_run
from t5x_like.text.tasks.rows import BadRow, RawRow, partition


def predict_rows(
    arguments: argparse.Namespace,
    table: PredictedTable | None,
    lines: Iterable[str],
    prediction: RunPrediction | None = None,
) -> int:
    """Predict a table, or lines.

    Args:
      arguments: The flags.
      table: The table; None for lines.
      lines: Lines to predict if there is no table.
      prediction: ``RunPrediction`` of a run; None for other checkpoints.
    """
    if table is None:
        return _predict_lines(arguments, lines, prediction)
    task = None
    if prediction is not None:
        task = prediction.resolve().only_task()
    delimiter = arguments.delimiter or getattr(task, "delimiter", ",")
    if len(delimiter) != 1:
        raise UserError(f"--delimiter {delimiter!r}: give one character")
    columns = tuple(arguments.columns or getattr(task, "columns", ()))  # of files without a header line
    rows = table.rows(columns, delimiter)
    first, names = _first_row(rows)
    if not arguments.delimiter and not columns and (separator := table.other_separator(names, delimiter)):
        delimiter, rows = separator, table.rows(columns, separator)
        first, names = _first_row(rows)
    for name in arguments.text or ():
        if names and name not in names and table.format != "jsonl":
            raise UserError(
                f"--text {name}: {table.name} has no such column; the columns are {', '.join(names)}",
                hint=nearest(name, names),
            )
    predictor, renamed, weights = _opened(arguments, table, names, prediction)
    _refuse_length_of_nothing(arguments, predictor)
    _require_texts(table, names, [renamed.get(each, each) for each in predictor.input_columns])
    settings = TablePrediction(
        format=table.output_format,
        columns=renamed,
        prediction_column=arguments.prediction_column or "prediction",
        with_scores=arguments.scores,
        on_bad_row=arguments.on_bad_row or getattr(task, "on_bad_row", "fail"),
        delimiter=delimiter,
        has_header=not columns,
    )
    identity = {"input": table.name, "input format": table.format, **weights}
    counts = predict_table(
        predictor,
        itertools.chain(first, rows),
        settings,
        output=arguments.output,
        identity=identity,
        schema=table.schema(),
        write=_print,
    )
    if arguments.output:
        print(f"{counts.num_rows:,} rows written to {arguments.output}")
    return 0


def _first_row(rows: Iterator[RawRow | BadRow]) -> tuple[list[RawRow | BadRow], list[str]]:
    """Take the first row, if there is one, and return the names of its columns, too."""
    first = list(itertools.islice(rows, 1))
    return first, [name for row in partition(first)[0] for name in row.values]


def _require_texts(table: PredictedTable, names: Sequence[str], needed: Sequence[str]) -> None:
    """Refuse a table whose line of names has no column of a text; it may be a row.

    Raises:
      UserError: It has none.
    """
    if table.format in ("csv", "tsv") and names and needed and not {*names} & {*needed}:
        raise UserError(
            f"{table.name} has no column {' and '.join(map(repr, needed))}; the columns are {', '.join(names)}",
            hint="say which column is the text by --text COLUMN; if the first line is a row, name the columns by "
            "--columns NAME NAME …",
        )


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _opened(
    arguments: argparse.Namespace,
    table: PredictedTable,
    names: Sequence[str],
    prediction: RunPrediction | None,
) -> tuple[RowPredictor, Mapping[str, str], Mapping[str, object]]:
    """Return the predictor, the table's column for each of the model's, and what the predictions depend on."""
    texts = tuple(arguments.text or ())
    if prediction is None:
        return _opened_checkpoint(arguments, table, names, texts)
    predictor = row_predictor(prediction)
    needed = predictor.input_columns
    if texts and len(texts) != len(needed):
        raise UserError(
            f"--text names {len(texts)} columns, and task {prediction.task!r} reads "
            f"{len(needed) or 'columns of its own names'}: {', '.join(needed)}"
        )
    weights = {"prediction": str(prediction), "weights": _identity(prediction.checkpoint, prediction.step)}
    weights |= {f"weights of {each}": _identity(each, None) for each in prediction.ensemble}
    return predictor, dict(zip(needed, texts, strict=True)) if texts else {}, weights


def _opened_checkpoint(
    arguments: argparse.Namespace, table: PredictedTable, names: Sequence[str], texts: tuple[str, ...]
) -> tuple[RowPredictor, Mapping[str, str], Mapping[str, object]]:
    opened = _open(arguments.checkpoint)
    texts = texts or usual_columns(names, num_texts_of(opened))
    if not texts:
        raise UserError(
            f"{table.name}: none of its columns has a usual name of a text ({', '.join(names) or 'none'})",
            hint="name it: --text COLUMN",
        )
    if len(texts) > 2:
        raise UserError(f"--text names {len(texts)} columns; {arguments.checkpoint} reads one text or a pair")
    predictor = _checkpoint_predictor(arguments, opened, len(texts))
    settings = {name: getattr(arguments, name) for name in ("inputs_length", "max_new_tokens")}
    weights = {**settings, "weights": _identity(arguments.checkpoint, None)}
    return predictor, dict(zip(("text", "text_pair"), texts, strict=False)), weights


def _open(checkpoint: str) -> Checkpoint:
    return open_checkpoint(checkpoint, mesh=MeshConfig().build(), needs_tokenizer=True)


def _checkpoint_predictor(arguments: argparse.Namespace, opened: Checkpoint, num_texts: int) -> RowPredictor:
    return checkpoint_predictor(
        opened,
        num_texts=num_texts,
        batch_size=arguments.batch_size or 16,
        inputs_length=arguments.inputs_length,
        generation=GenerationConfig(max_new_tokens=arguments.max_new_tokens or 64),
    )


def _identity(checkpoint: str, step: int | None) -> str:
    if step is None and is_run(checkpoint):
        steps = steps_of(checkpoint)
        step = steps[-1] if steps else None
    return f"{checkpoint}, step {step}, {identity_of(checkpoint, step)}"


def _refuse_length_of_nothing(arguments: argparse.Namespace, predictor: RowPredictor) -> None:
    if arguments.max_new_tokens is not None and not predictor.can_generate:
        raise UserError(
            f"--max_new_tokens has no effect: {arguments.checkpoint or 'the run'} writes no answers, it chooses them; "
            "leave it out"
        )


def judge_of(arguments: argparse.Namespace, prediction: RunPrediction | None) -> Judge:
    """Open a reward model as judge.

    Args:
      arguments: The flags.
      prediction: ``RunPrediction`` of a run; None for other checkpoints.
    """
    return reward_judge(_without_table(arguments, prediction, num_texts=2))


def _without_table(
    arguments: argparse.Namespace, prediction: RunPrediction | None, *, num_texts: int
) -> RowPredictor:
    if prediction is None:
        return _checkpoint_predictor(arguments, _open(arguments.checkpoint), num_texts)
    return row_predictor(prediction)


def _predict_lines(
    arguments: argparse.Namespace, lines: Iterable[str], prediction: RunPrediction | None
) -> int:
    """Print the predictions of lines, or write them as JSONL."""
    predictor = _without_table(arguments, prediction, num_texts=1)
    _refuse_length_of_nothing(arguments, predictor)
    predictions = predict_lines(predictor, lines)
    if arguments.output:
        write_jsonl(arguments.output, (each._asdict() for each in predictions))
        return 0
    for each in predictions:
        print(each.prediction, flush=True)
    return 0
