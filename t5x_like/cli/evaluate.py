"""Score weights on held-out rows; writes scores.json, predictions.jsonl and, of benchmarks, a report.

t5x-like evaluate --checkpoint runs/finetune             the test rows of what the run was trained on
t5x-like evaluate --checkpoint runs/a --ensemble runs/b runs/c    the mean of their predictions
t5x-like evaluate --checkpoint RUN|HF_DIR --recipe glue  a suite of benchmarks; --tasks names some of them
t5x-like evaluate --checkpoint HF_DIR --recipe super_glue --num_shots 4          a decoder shown solved examples
t5x-like evaluate --checkpoint RUN --recipe glue --submission glue.zip           the file for GLUE's server
t5x-like evaluate --checkpoint RUN --recipe glue --watch                         each checkpoint as it appears
t5x-like evaluate --gin_file=gin/recipes/quickstart/evaluate.gin --set CHECKPOINT=runs/finetune …
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from t5x_like.cli.arguments import (
    EVALUATION,
    add_checkpoint_arguments,
    add_ensemble_arguments,
    as_ensemble,
    load_configuration,
    read_experiment_field,
    use_saved_run,
)
from t5x_like.cli.evaluate_suite import add_suite_arguments, run_suite, suite_flags
from t5x_like.cli.flag_values import FlagValues
from t5x_like.evaluation.overruled_settings import overruled
from t5x_like.gin_config.configuration import Configuration
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import as_path
from t5x_like.partitioning.processes import initialize_processes
from t5x_like.reports.score_tables import run_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like evaluate``."""
    add_checkpoint_arguments(parser)
    parser.add_argument("--output_dir", metavar="DIR", help="where results go (RUN_DIR/evaluation)")
    add_ensemble_arguments(parser)
    parser.add_argument("--split", help="the rows to score (test; of benchmarks validation)")
    add_suite_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print each task's scores next to its baseline."""
    return run_suite(arguments) if _wants_suite(arguments) else _run_own_tasks(arguments)


def _wants_suite(arguments: argparse.Namespace) -> bool:
    """Return True if the flags select benchmarks, not a run's own held-out rows.

    Raises:
      UserError: Flags for benchmarks, or a Hugging Face directory, without a benchmark.
    """
    if arguments.recipe or arguments.tasks:
        if arguments.ensemble:
            raise UserError(
                "--ensemble is for the held-out rows of a run's own tasks",
                hint="leave out --recipe and --tasks",
            )
        return True
    flags = suite_flags(arguments)
    if flags:
        raise UserError(
            f"--{flags[0]} is for benchmarks", hint="add --recipe glue, --recipe super_glue or --tasks TASK …"
        )
    folder = as_path(arguments.checkpoint)
    is_hugging_face = (folder / "config.json").is_file() and not (folder / "model.json").is_file()
    if arguments.checkpoint and (is_hugging_face or folder.is_file()):
        raise UserError(
            f"--checkpoint {folder} is {'a file' if folder.is_file() else 'a Hugging Face directory'}, which has no "
            "tasks of its own",
            hint="say on what to evaluate it: --recipe glue, --recipe super_glue or --tasks TASK …",
        )
    return False


def _run_own_tasks(arguments: argparse.Namespace) -> int:
    """Evaluate a run on the held-out rows of its own tasks."""
    evaluation = own_evaluation(arguments)
    # This imports JAX.
    from t5x_like.evaluation.saved_runs import evaluate_run

    initialize_processes()
    print(run_table(evaluate_run(evaluation)))
    print(f"written to {evaluation.output_dir}")
    return 0


def own_evaluation(arguments: argparse.Namespace) -> Any:
    """Return the ``RunEvaluation`` of a run's own tasks that the flags describe; they may be changed."""
    output = arguments.output_dir
    if not output and not arguments.gin_file and arguments.checkpoint:
        output = f"{arguments.checkpoint.rstrip('/')}/evaluation"
    is_recorded = not arguments.gin_file
    flags = FlagValues.of(arguments)
    by_head = is_recorded and _evaluates_head(arguments.checkpoint)
    template = "gin/runs/evaluate_head.gin" if by_head else "gin/runs/evaluate.gin"
    use_saved_run(arguments, template, OUTPUT_DIR=output, SPLIT=arguments.split)
    loaded = load_configuration(arguments, EVALUATION)
    evaluation = loaded.value
    if is_recorded and "evaluations" not in flags.parameters_of(type(evaluation).__name__, loaded):
        recorded = read_experiment_field(arguments.checkpoint, "evaluations")
        evaluations = _own_evaluations(recorded, loaded, flags)
        evaluation = replace(evaluation, evaluations=evaluations)
    return as_ensemble(evaluation, arguments)


def _evaluates_head(checkpoint: str) -> bool:
    """Return True if a run's own configuration evaluates a head, or trains a reward model."""
    record = as_path(checkpoint) / "experiment.json"
    if not checkpoint or not record.is_file():
        return False
    text = record.read_bytes().decode("utf-8", errors="replace")
    return ":HeadEvaluation" in text or ":RewardModel" in text


def _own_evaluations(recorded: Sequence[Any], loaded: Configuration, flags: FlagValues) -> tuple[Any, ...]:
    """Return the run's own evaluations, which may be of other tasks than it was trained on.

    Args:
      recorded: Evaluations of the run.
      loaded: Configuration whose evaluation gives the split, the batch size and the limit, and what flags set. It is
        the evaluation of a run without one.
      flags: Names that flags set.
    """
    template = loaded.value.evaluations[0]
    chosen = flags.parameters_of(type(template).__name__, loaded)
    names = {"split", "batch_size", "limit", *chosen}

    def as_recorded(each: Any) -> Any:
        if not hasattr(each, "generation"):
            return overruled(each, names, template)
        if "method" in chosen and template.method == "rank":  # without the search of a run that writes
            return overruled(each, {*names, "generation"}, template)
        owner = type(template).__name__
        decoding = flags.fields_of(template.generation, loaded, owner=owner, name="generation")
        generation = overruled(each.generation, decoding, template.generation)
        return overruled(each, {*names, "generation"}, replace(template, generation=generation))

    own = [as_recorded(each) for each in recorded if isinstance(each, type(template))]
    # One mixture that flags name is evaluated once.
    return tuple(own[:1] if "mixture" in chosen else own) or (template,)
