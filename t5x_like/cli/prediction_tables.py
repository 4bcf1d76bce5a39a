"""Tables of ``t5x-like predict``: what flags and names of files say about them, and their rows with predictions."""

import argparse
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t5x_like.gin_config.user_error import UserError, nearest
from t5x_like.io.files import write_jsonl
from t5x_like.io.table_output import TABLE_FORMATS
from t5x_like.text.tasks.row_files import ending_of, read_raw_rows
from t5x_like.text.tasks.rows import BadRow, RawRow

_INPUT_FORMATS = (*TABLE_FORMATS, "arrow")
_STANDARD_INPUT = "-"
_SETTINGS = ("format", "delimiter", "text", "scores", "prediction_column", "on_bad_row")


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
        """Yield the rows; see ``read_raw_rows``."""
        stream = sys.stdin.buffer if self.file == _STANDARD_INPUT else None
        return read_raw_rows(self.name, self.format, columns=columns, delimiter=delimiter, stream=stream)

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
    format = arguments.format or ending_of(file)
    if file == _STANDARD_INPUT and not arguments.format:
        raise UserError("a table on stdin has no name; say its format: --format csv, tsv, jsonl or parquet")
    if file != _STANDARD_INPUT and not Path(file).is_file():
        raise UserError(f"--input {file}: there is no such file")
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


def _is_table(given: str, format: str | None) -> bool:
    if given == _STANDARD_INPUT:
        return True
    is_named = ending_of(given) in _INPUT_FORMATS and not any(map(str.isspace, given))
    return is_named or (format is not None and Path(given).is_file())


def predict_rows(
    arguments: argparse.Namespace,
    table: PredictedTable | None,
    lines: Iterable[str],
    prediction: Any = None,
) -> int:
    """Predict a table, or lines with a checkpoint that is no run.

    Args:
      arguments: The flags.
      table: The table; None for lines.
      lines: Lines to predict if there is no table.
      prediction: ``RunPrediction`` of a run; None for other checkpoints.
    """
    if table is None:
        return _predict_lines(arguments, lines)
    from t5x_like.text import registry

    task: Any = None
    if prediction is not None:
        registry.register(prediction.tasks)
        task = registry.task(prediction.task)
    delimiter = arguments.delimiter or getattr(task, "delimiter", ",")
    if len(delimiter) != 1:
        raise UserError(f"--delimiter {delimiter!r}: give one character")
    columns = tuple(getattr(task, "columns", ()))  # of files without a header line
    rows = table.rows(columns, delimiter)
    first = list(itertools.islice(rows, 1))
    names = list(first[0].values) if first and isinstance(first[0], RawRow) else []
    for name in arguments.text or ():
        if names and name not in names and table.format != "jsonl":
            raise UserError(
                f"--text {name}: {table.name} has no such column; the columns are {', '.join(names)}",
                hint=nearest(name, names),
            )
    predictor, renamed, weights = _opened(arguments, table, names, prediction)
    # JAX has loaded.
    from t5x_like.evaluation.table_predictions import TablePrediction, predict_table

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


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _opened(
    arguments: argparse.Namespace, table: PredictedTable, names: Sequence[str], prediction: Any
) -> tuple[Any, Mapping[str, str], Mapping[str, Any]]:
    """Return the predictor, the table's column for each of the model's, and what the predictions depend on."""
    from t5x_like.evaluation.saved_runs import row_predictor

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
) -> tuple[Any, Mapping[str, str], Mapping[str, Any]]:
    from t5x_like.evaluation.checkpoint_predictor import num_texts_of, usual_columns

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


def _open(checkpoint: str) -> Any:
    from t5x_like.partitioning.mesh import MeshConfig
    from t5x_like.pretrained.open_checkpoint import open_checkpoint

    return open_checkpoint(checkpoint, mesh=MeshConfig().build(), needs_tokenizer=True)


def _checkpoint_predictor(arguments: argparse.Namespace, opened: Any, num_texts: int) -> Any:
    from t5x_like.evaluation.checkpoint_predictor import checkpoint_predictor
    from t5x_like.inference.generator import GenerationConfig

    return checkpoint_predictor(
        opened,
        num_texts=num_texts,
        batch_size=arguments.batch_size or 16,
        inputs_length=arguments.inputs_length,
        generation=GenerationConfig(max_new_tokens=arguments.max_new_tokens or 64),
    )


def _identity(checkpoint: str, step: int | None) -> str:
    from t5x_like.pretrained.run_weights import steps_of
    from t5x_like.pretrained.weight_sources import identity_of, is_run

    if step is None and is_run(checkpoint):
        steps = steps_of(checkpoint)
        step = steps[-1] if steps else None
    return f"{checkpoint}, step {step}, {identity_of(checkpoint, step)}"


def _predict_lines(arguments: argparse.Namespace, lines: Iterable[str]) -> int:
    """Print the predictions of lines, or write them as JSONL."""
    predictor = _checkpoint_predictor(arguments, _open(arguments.checkpoint), 1)

    def predictions() -> Iterator[dict[str, str]]:
        waiting = iter(lines)
        while batch := list(itertools.islice(waiting, predictor.batch_size)):
            rows = [predictor.read_line(line) for line in batch]
            for row, found in zip(rows, predictor.predict(rows), strict=True):
                yield {"input": predictor.input_text(row), "prediction": found.text}

    if arguments.output:
        write_jsonl(arguments.output, predictions())
        return 0
    for each in predictions():
        print(each["prediction"], flush=True)
    return 0
