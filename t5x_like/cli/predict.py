"""Answer lines of text with a run's weights: from --input, from a file, or from stdin. One answer a line.

t5x-like predict --checkpoint runs/finetune --task cmudict --input "t r a i n"
t5x-like predict --checkpoint runs/finetune --task cmudict --output answers.jsonl < words.txt
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from t5x_like.cli.arguments import (
    PREDICTION,
    add_checkpoint_arguments,
    add_ensemble_arguments,
    as_ensemble,
    has_own_decoding,
    load_configuration,
    read_experiment_field,
    use_saved_run,
)
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import write_jsonl


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like predict``."""
    add_checkpoint_arguments(parser)
    add_ensemble_arguments(parser)
    parser.add_argument("--task", help="the task that words the input and names the vocabulary")
    parser.add_argument("--input", action="append", default=[], metavar="TEXT", help="may be repeated")
    parser.add_argument("--input_file", metavar="FILE", help="one input a line")
    parser.add_argument("--output", metavar="FILE", help="write JSONL with input and prediction, not stdout")


def run(arguments: argparse.Namespace) -> int:
    """Print or writes the answers in the order of the inputs."""
    if arguments.input and arguments.input_file:
        raise UserError("give --input or --input_file, not both")
    if not (arguments.task or arguments.gin_file):
        raise UserError("say which task words the input: --task NAME (t5x-like tasks list)")
    is_recorded = not arguments.gin_file
    use_saved_run(arguments, "gin/runs/predict.gin", TASK=arguments.task)
    prediction: Any = load_configuration(arguments, PREDICTION).value
    if is_recorded:
        generation = _decoding(prediction.checkpoint, prediction.generation)
        prediction = replace(prediction, generation=generation)
    # JAX loads when the verb runs.
    from t5x_like.evaluation.saved_runs import predict

    predictions = predict(as_ensemble(prediction, arguments), _lines(arguments))
    if arguments.output:
        write_jsonl(arguments.output, (prediction._asdict() for prediction in predictions))
        return 0
    for prediction in predictions:
        print(prediction.prediction, flush=True)
    return 0


def _decoding(checkpoint: str, asked: Any) -> Any:
    """Return the decoding of a run's own evaluation, unless flags ask for another."""
    if has_own_decoding(asked):
        return asked
    found = read_experiment_field(checkpoint, "evaluations")
    own = [each.generation for each in found if hasattr(each, "generation")]
    return replace(own[0], max_new_tokens=asked.max_new_tokens) if own else asked


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
            raise UserError(f"not UTF-8 text: {error.reason}", where=f"{name}:{number}") from error
