"""The part of ``t5x-like evaluate`` that runs benchmarks: its flags, the suite they describe, and its results."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from t5x_like.cli.arguments import (
    SUITE,
    gin_macros,
    import_users_modules,
    load_configuration,
    read_experiment_field,
)
from t5x_like.cli.number_types import non_negative, positive
from t5x_like.cli.submission import announce_submission, write_submission_of
from t5x_like.evaluation.prompts import DECODER_STYLE
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import as_path
from t5x_like.partitioning.processes import initialize_processes
from t5x_like.reports.evaluation_report import write_evaluation_report
from t5x_like.reports.score_tables import left_out, scores_table, steps_table
from t5x_like.text import registry
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.suites import SUITES, suite_named
from t5x_like.text.vocabularies.opening import vocabulary_files

# Flags that are fields of SuiteEvaluation under the same name, and are for benchmarks only.
_FIELDS = (
    "method",
    "num_shots",
    "shot_seed",
    "inputs_length",
    "max_new_tokens",
    "num_beams",
    "normalization",
    "batch_size",
    "limit",
    "resamples",
    "vocabulary",
    "num_sentinels",
    "classes",
    "data_dir",
    "step",
    "on_bad_row",
)
_SWITCHES = ("every_checkpoint", "watch", "skip_missing", "adapters")


def add_suite_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags for benchmarks."""
    _add_task_arguments(parser.add_argument_group("benchmarks, what is evaluated"))
    _add_answer_arguments(parser.add_argument_group("benchmarks, how answers are given"))
    parser.add_argument(
        "--submission", metavar="FILE.zip", help="answer the test split, and write the file for its server"
    )


def _add_task_arguments(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--recipe", metavar="NAME", help="glue, super_glue, xtreme, or a gin file of a SuiteEvaluation")
    add("--tasks", nargs="+", metavar="TASK", help="these tasks, by seqio's names: glue_cola_v002 …")
    add("--data_dir", metavar="DIR", help="where the benchmarks' files are ($T5X_LIKE_DATA)")
    add(
        "--skip_missing",
        action="store_true",
        help="leave out tasks whose files are missing, or that the model has no head for, and say which",
    )
    add(
        "--on_bad_row",
        choices=["fail", "skip"],
        help="stop at a row that can't be read, or leave it out and count it (fail)",
    )
    add(
        "--limit", type=positive, metavar="N", help="only N questions of each task, the same sample each time"
    )
    add("--step", type=non_negative, metavar="N", help="a run's checkpoint of this step, not its newest")
    add("--every_checkpoint", action="store_true", help="every step that a run has")
    add(
        "--adapters",
        nargs="+",
        metavar="RUN",
        help="runs that trained an adapter on --checkpoint; it is opened once, and results are in a folder for each",
    )
    add("--watch", action="store_true", help="every step, and then each as it is saved, to the run's last")
    add("--vocabulary", metavar="PATH", help="the model's vocabulary, where it is not next to the weights")
    add(
        "--num_sentinels",
        type=non_negative,
        metavar="N",
        help="ids for spans at the vocabulary's end (as the model was trained)",
    )


def _add_answer_arguments(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--method",
        choices=["generate", "rank", "head"],
        help="written, the likeliest of a task's answers, or a head's prediction (by what the model is)",
    )
    add(
        "--classes",
        nargs="+",
        metavar="WORD",
        help="the head's classes in the order of its scores, in the task's words (as its config.json names them)",
    )
    add(
        "--num_shots",
        type=non_negative,
        metavar="K",
        help="solved training examples before each question (0)",
    )
    add("--shot_seed", type=non_negative, metavar="S", help="seed of the examples that are drawn (0)")
    add("--prompt", metavar="TEXT", help="the template of a question, with {inputs} in it")
    add("--answer", metavar="TEXT", help="the template of an example's answer, with {targets} in it")
    add(
        "--normalization",
        choices=["none", "tokens", "bytes"],
        help="likelihoods of ranked answers over their length (none)",
    )
    add("--batch_size", type=positive, metavar="N", help="questions at once (32)")
    add(
        "--inputs_length",
        type=positive,
        metavar="N",
        help="longest question in tokens, the rest is cut and counted (what the model can read; 512, decoders 2,048)",
    )
    add(
        "--max_new_tokens", type=positive, metavar="N", help="longest answer in tokens (what the task's take)"
    )
    add("--num_beams", type=positive, metavar="N", help="beams of written answers (1)")
    add(
        "--resamples",
        type=non_negative,
        metavar="N",
        help="draws for the intervals of scores (1000); 0 for none",
    )


def suite_flags(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the given flags that are for benchmarks only."""
    flags = [name for name in (*_FIELDS, "submission") if getattr(arguments, name) is not None]
    return flags + [name for name in _SWITCHES if getattr(arguments, name)]


def run_suite(arguments: argparse.Namespace) -> int:
    """Evaluate on benchmarks; print and write the scores.

    Raises:
      UserError: Flags that exclude each other, no checkpoint, or no such task or recipe.
    """
    import_users_modules(arguments)
    of_steps = arguments.every_checkpoint or arguments.watch
    if arguments.step is not None and of_steps:
        raise UserError("--step names one checkpoint, --every_checkpoint and --watch take all; leave one out")
    settings = _suite_settings(arguments)
    if arguments.adapters and (of_steps or arguments.submission):
        raise UserError("--adapters takes one step of each run; leave out other steps and --submission")
    if arguments.submission:
        if settings.split != "test" or settings.limit is not None or of_steps:
            raise UserError(
                "--submission takes the whole test split of one checkpoint",
                hint="leave out --split, --limit …",
            )
        announce_submission(arguments.submission, settings.tasks)
    # These import JAX.
    from t5x_like.evaluation import every_checkpoint, suite

    initialize_processes()
    try:
        if arguments.adapters:
            runs = _of_adapters(settings, arguments.adapters)
            for run, scores in suite.evaluate_adapters(settings.checkpoint, runs):
                write_evaluation_report(run.output_dir)
                print(f"{run.checkpoint}\n{scores_table(scores)}\nwritten to {run.output_dir}", flush=True)
            return 0
        if of_steps:
            steps = {}
            for step, scores in every_checkpoint.evaluate_steps(settings, watch=arguments.watch):
                steps[step] = scores
                write_evaluation_report(f"{settings.output_dir}/step_{step}")
                print("\n".join([steps_table(steps), *left_out(scores)]), flush=True)
            print(f"written to {settings.output_dir}")
            return 0
        scores = suite.evaluate_suite(settings, for_server=bool(arguments.submission))
    except KeyboardInterrupt:
        if as_path(settings.output_dir).exists():
            print(
                f"the answers so far are in {settings.output_dir}; the same command continues",
                file=sys.stderr,
            )
        raise
    page = write_evaluation_report(settings.output_dir)
    print(scores_table(scores))
    if arguments.submission:
        write_submission_of([settings.output_dir], arguments.submission)
    print(f"written to {settings.output_dir}; the report is {page}")
    return 0


def _of_adapters(settings: Any, runs: list[str]) -> list[Any]:
    """Return the evaluation of each run, with results in a folder of its own."""
    names = [Path(run).name for run in runs]
    if len(set(names)) < len(names):
        raise UserError(f"--adapters: two runs have the same name, of {', '.join(names)}; rename a directory")
    return [
        _with_run_settings(replace(settings, checkpoint=run, output_dir=f"{settings.output_dir}/{name}"))
        for run, name in zip(runs, names, strict=True)
    ]


def _suite_settings(arguments: argparse.Namespace) -> Any:
    """Return the evaluation that the flags and the recipe describe; flags override the recipe.

    Raises:
      UserError: No checkpoint, no such recipe, or values for gin where no gin file is read.
    """
    fields = _fields_of(arguments)
    recipe = arguments.recipe or ""
    if recipe.endswith(".gin") or (not recipe and arguments.gin_file):
        arguments.gin_file = [*([recipe] if recipe else []), *arguments.gin_file]
        macros = gin_macros(CHECKPOINT=arguments.checkpoint, OUTPUT_DIR=fields.get("output_dir"))
        arguments.overrides = [*macros, *arguments.overrides]
        return _with_run_settings(replace(load_configuration(arguments, SUITE).value, **fields))
    if not arguments.checkpoint:
        raise UserError("say which weights: --checkpoint RUN_DIR, or a directory in Hugging Face's layout")
    if arguments.overrides:
        raise UserError(
            "--set and --gin. are for recipes in gin files; here every setting has a flag of its own",
            hint="see t5x-like evaluate --help",
        )
    split = fields.setdefault("split", "test" if arguments.submission else "validation")
    if recipe and recipe not in SUITES:
        raise UserError(
            f"--recipe {recipe}: there is no such recipe", hint=f"{', '.join(SUITES)}, or a .gin file"
        )
    fields.setdefault("tasks", recipe and suite_named(recipe).tasks_of(split))
    # The directory of a file's scores is next to it.
    home = arguments.checkpoint.rstrip("/").removesuffix(".gguf")
    default = f"{home}/evaluation-{recipe or 'tasks'}-{split}"
    fields.setdefault("output_dir", default)
    # This imports JAX.
    from t5x_like.evaluation.suite_settings import SuiteEvaluation

    return _with_run_settings(SuiteEvaluation(checkpoint=arguments.checkpoint, **fields))


def _fields_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a ``SuiteEvaluation`` that flags give."""
    names = ("output_dir", "split", *_FIELDS)
    fields = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    if arguments.prompt or arguments.answer:
        style = {"question": arguments.prompt, "answer": arguments.answer}
        fields["style"] = replace(DECODER_STYLE, **{name: text for name, text in style.items() if text})
    if arguments.classes:
        fields["classes"] = tuple(arguments.classes)
    if arguments.skip_missing:
        fields["skip_missing"] = True
    if arguments.tasks:
        fields["tasks"] = tuple(name for names in arguments.tasks for name in names.split(",") if name)
    return fields


def _with_run_settings(suite: Any) -> Any:
    """Register the run's own tasks; find its vocabulary where only its configuration names it."""
    is_run = (as_path(suite.checkpoint) / "experiment.json").exists()
    tasks = read_experiment_field(suite.checkpoint, "tasks") if is_run else ()
    if any(name not in catalogue.benchmarks() for name in suite.tasks):
        registry.register(tasks)
    if suite.vocabulary or vocabulary_files(suite.checkpoint):
        return suite
    own = {task.vocabulary for task in tasks if hasattr(task, "vocabulary")}
    return replace(
        suite, vocabulary=own.pop() if len(own) == 1 else os.environ.get("T5X_LIKE_VOCABULARY", "")
    )
