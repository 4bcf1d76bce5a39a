"""Predict with a run or any checkpoint: rows of a table, which comes back with its predictions, or lines of text.

t5x-like predict runs/reviews --input new.csv --output predicted.csv       the same columns, and the prediction
t5x-like predict runs/reviews --input new.jsonl --text body --scores       another column; all classes; to stdout
cat new.tsv | t5x-like predict path/to/bert --input - --format tsv         a Hugging Face directory with a head
t5x-like predict --checkpoint runs/finetune --task cmudict --input "t r a i n"
t5x-like predict --checkpoint runs/finetune --task cmudict --output answers.jsonl < words.txt
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

from t5x_like.cli.arguments import (
    PREDICTION,
    add_checkpoint_arguments,
    add_ensemble_arguments,
    as_ensemble,
    import_users_modules,
    load_configuration,
    read_experiment_field,
    use_saved_run,
)
from t5x_like.cli.flag_values import FlagValues
from t5x_like.cli.named_tasks import tasks_of
from t5x_like.cli.number_types import positive
from t5x_like.cli.prediction_tables import (
    add_table_arguments,
    table_of,
    table_settings,
)
from t5x_like.evaluation.judgments import Judge
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import as_path
from t5x_like.io.text_encoding import windows_remedy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like predict``."""
    parser.add_argument(
        "directory",
        nargs="?",
        metavar="CHECKPOINT",
        help="a run, or any other checkpoint: --checkpoint, shorter",
    )
    add_checkpoint_arguments(parser)
    add_ensemble_arguments(parser)
    parser.add_argument("--task", help="the task that words the input (the run's own, if it has one)")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="TABLE",
        help="a table (.csv, .tsv, .jsonl, .parquet), or - for one on stdin; or a text, and then it may be repeated",
    )
    parser.add_argument("--input_file", metavar="FILE", help="one input a line")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="the table to write, in the format of its name; of lines JSONL with input and prediction (stdout)",
    )
    parser.add_argument(
        "--inputs_length", type=positive, metavar="N", help="tokens of an input (as in training)"
    )
    parser.add_argument("--batch_size", type=positive, metavar="N", help="rows at once (16)")
    parser.add_argument(
        "--max_new_tokens", type=positive, metavar="N", help="longest written answer in tokens"
    )
    parser.add_argument(
        "--method",
        choices=["generate", "rank"],
        help="write an answer, or rank the task's labels by their likelihood (as the run was evaluated)",
    )
    add_table_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write a table with predictions, or print the answers in the order of the inputs."""
    if arguments.directory and arguments.checkpoint:
        raise UserError("CHECKPOINT and --checkpoint name two checkpoints; give one")
    arguments.checkpoint = arguments.directory or arguments.checkpoint
    if arguments.input and arguments.input_file:
        raise UserError("give --input or --input_file, not both")
    for name in ("inputs_length", "batch_size", "max_new_tokens"):
        if (value := getattr(arguments, name)) is not None and value < 1:
            raise UserError(f"--{name} is {value}; give at least 1")
    table = table_of(arguments)
    if table is None and (settings := table_settings(arguments)):
        raise UserError(
            f"--{settings[0]} is for tables", hint="give one by --input FILE.csv, .tsv, .jsonl, .parquet"
        )
    if not (arguments.checkpoint or arguments.gin_file):
        raise UserError("say which weights: CHECKPOINT, a run or a Hugging Face directory")
    is_run = bool(arguments.gin_file) or (as_path(arguments.checkpoint) / "experiment.json").is_file()
    if is_run:
        return _run_of_task(arguments, table)
    if arguments.task or arguments.ensemble or arguments.overrides or arguments.method:
        raise UserError(
            f"{arguments.checkpoint} is no run, there is no experiment.json in it; --task, --ensemble, --method and "
            "--set are for runs"
        )
    return _predicted_rows().predict_rows(arguments, table, _lines(arguments) if table is None else ())


def _run_of_task(arguments: argparse.Namespace, table: Any) -> int:
    """Predict with a run, in the form of its task."""
    prediction = run_prediction(arguments)
    lines = _lines(arguments) if table is None else ()
    return _predicted_rows().predict_rows(arguments, table, lines, prediction)


def run_prediction(arguments: argparse.Namespace) -> object:
    """Return the ``RunPrediction`` that the flags describe; they may be changed."""
    is_recorded = not arguments.gin_file
    if is_recorded and not arguments.task:
        arguments.task = _own_task(arguments)
    checkpoint = arguments.checkpoint
    flags = FlagValues.of(arguments)
    length = _answer_length(checkpoint) if is_recorded else None
    use_saved_run(arguments, "gin/runs/predict.gin", TASK=arguments.task, TARGETS_LENGTH=length)
    loaded = load_configuration(arguments, PREDICTION)
    prediction = loaded.value
    if arguments.method:
        prediction = replace(prediction, method=arguments.method)
    if is_recorded:
        evaluations = read_experiment_field(checkpoint, "evaluations")
        owner = type(prediction).__name__
        prediction = prediction.as_evaluated(
            evaluations,
            decoding=flags.fields_of(prediction.generation, loaded, owner=owner, name="generation"),
            search=flags.fields_of(prediction.spans, loaded, owner=owner, name="spans"),
        )
    for name in ("inputs_length", "batch_size"):
        if getattr(arguments, name) is not None:
            prediction = replace(prediction, **{name: getattr(arguments, name)})
    if arguments.max_new_tokens is not None:
        generation = replace(prediction.generation, max_new_tokens=arguments.max_new_tokens)
        prediction = replace(prediction, generation=generation)
    return as_ensemble(prediction, arguments)


def open_judge(directory: str, *, batch_size: int | None) -> Judge:
    """Open a reward model as judge, with the settings of ``t5x-like predict DIRECTORY``.

    Args:
      directory: Run or another checkpoint.
      batch_size: Answers at once; None for the usual number.
    """
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    settings: dict[str, Any] = {"checkpoint": directory, "batch_size": batch_size, "overrides": []}
    arguments = parser.parse_args([], argparse.Namespace(**settings))
    prediction = run_prediction(arguments) if (as_path(directory) / "experiment.json").is_file() else None
    return _predicted_rows().judge_of(arguments, prediction)


def _predicted_rows() -> ModuleType:
    from t5x_like.cli import predicted_rows  # imports JAX

    return predicted_rows


def _answer_length(run: str) -> int:
    from t5x_like.training.evaluate import own_answer_length  # imports JAX

    return own_answer_length(run)


def _own_task(arguments: argparse.Namespace) -> str:
    """Return the only task that a run was trained on.

    Raises:
      UserError: There are several.
    """
    import_users_modules(arguments)

    mixture = read_experiment_field(arguments.checkpoint, "train").mixture
    (tasks,) = tasks_of([mixture], read_experiment_field(arguments.checkpoint, "tasks"))
    names = tasks.names
    if len(names) != 1:
        raise UserError(
            f"{arguments.checkpoint} was trained on several tasks; say which task words the input: --task NAME",
            hint=f"choose from: {', '.join(names)}",
        )
    return names[0]


def _lines(arguments: argparse.Namespace) -> Iterable[str]:
    if arguments.input:
        return arguments.input
    if arguments.input_file:
        with open(arguments.input_file, "rb") as file:
            return _decoded(file.read().splitlines(), arguments.input_file)
    if sys.stdin.isatty():
        print("one input a line; Ctrl-D ends", file=sys.stderr)
    return _decoded(sys.stdin.buffer, "stdin")


def _decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UserError(
                f"not UTF-8 text: {error.reason}", where=f"{name}:{number}", hint=windows_remedy(name)
            ) from error
