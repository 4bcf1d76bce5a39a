"""``t5x-like evaluate --recipe …``: checkpoints on benchmarks, with scores, predictions, a report and submissions."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from t5x_like.cli.arguments import SUITE, import_users_modules, load_configuration, load_part
from t5x_like.cli.suite_figures import mean_of, measure
from t5x_like.cli.suite_flags import FIELDS
from t5x_like.cli.suite_submissions import check_submission, check_zip, submit, submit_together
from t5x_like.cli.suite_tables import left_out, scores_table, steps_table
from t5x_like.gin_config.user_error import UserError

if TYPE_CHECKING:
    from t5x_like.evaluation.suite_settings import SuiteRun


def wants_suite(arguments: argparse.Namespace) -> bool:
    """Whether the flags ask for benchmarks, not for a run's own held-out rows."""
    if any(
        getattr(arguments, name)
        for name in ("recipe", "tasks", "mean_of", "text", "submission_of", "check_submission")
    ):
        return True
    only = [*(name for name in FIELDS if name not in ("output_dir", "split")), "submission"]
    given = [name for name in only if getattr(arguments, name) is not None]
    given += [name for name in ("every_checkpoint", "watch", "skip_missing") if getattr(arguments, name)]
    if given:
        raise UserError(
            f"--{given[0]} is for benchmarks", hint="add --recipe glue, --recipe super_glue or --tasks TASK …"
        )
    checkpoint = Path(arguments.checkpoint)
    if (
        arguments.checkpoint
        and (checkpoint / "config.json").is_file()
        and not (checkpoint / "config.gin").is_file()
    ):
        raise UserError(
            f"--checkpoint {checkpoint} is a Hugging Face directory, which has no tasks of its own",
            hint="say on what to evaluate it: --recipe glue, --recipe super_glue or --tasks TASK …",
        )
    return False


def run_suite(arguments: argparse.Namespace) -> int:
    """Evaluates, and prints what came out."""
    if arguments.mean_of:
        return mean_of(arguments)
    if arguments.text:
        return measure(arguments)
    if arguments.submission_of:
        return submit_together(arguments)
    if arguments.check_submission:
        return check_zip(arguments)
    import_users_modules(arguments)
    if arguments.step is not None and (arguments.every_checkpoint or arguments.watch):
        raise UserError("--step names one checkpoint, --every_checkpoint and --watch take all; leave one out")
    run = suite_of(arguments)
    if arguments.submission:
        check_submission(run, arguments)
    from t5x_like.evaluation.every_checkpoint import evaluate_steps
    from t5x_like.evaluation.suite_run import evaluate_suite
    from t5x_like.partitioning.processes import initialize_processes
    from t5x_like.reports.evaluation_report import write_evaluation_report

    initialize_processes()
    try:
        if arguments.every_checkpoint or arguments.watch:
            steps = {}
            for step, found in evaluate_steps(run, watch=arguments.watch):
                steps[step] = found
                write_evaluation_report(f"{run.output_dir}/step_{step}")
                print("\n".join([steps_table(steps), *left_out(found)]), flush=True)
            print(f"written to {run.output_dir}")
            return 0
        found = evaluate_suite(run, for_server=bool(arguments.submission))
    except KeyboardInterrupt:
        if Path(run.output_dir).exists():
            print(f"what was answered is in {run.output_dir}; the same command goes on", file=sys.stderr)
        raise
    page = write_evaluation_report(run.output_dir)
    print(scores_table(found))
    if arguments.submission:
        submit(arguments.submission, run.output_dir, found)
    print(f"written to {run.output_dir}; the report is {page}")
    return 0


def suite_of(arguments: argparse.Namespace) -> "SuiteRun":
    """The evaluation that the flags and the recipe describe; flags overrule the recipe.

    Raises:
      UserError: no checkpoint, or neither tasks nor a recipe.
    """
    from t5x_like.evaluation.suite_settings import SuiteRun
    from t5x_like.text.benchmarks.suites import SUITES, suite_named

    given = {name: getattr(arguments, name) for name in FIELDS if getattr(arguments, name) is not None}
    if arguments.prompt or arguments.answer:
        from t5x_like.evaluation.prompts import DECODER_STYLE

        style = {"question": arguments.prompt, "answer": arguments.answer}
        given["style"] = replace(DECODER_STYLE, **{name: text for name, text in style.items() if text})
    if arguments.classes:
        given["classes"] = tuple(arguments.classes)
    if arguments.skip_missing:
        given["skip_missing"] = True
    if arguments.tasks:
        given["tasks"] = tuple(name for names in arguments.tasks for name in names.split(",") if name)
    recipe = arguments.recipe or ""
    if recipe.endswith(".gin") or (not recipe and arguments.gin_file):
        arguments.gin_file = [*([recipe] if recipe else []), *arguments.gin_file]
        if arguments.checkpoint:
            arguments.gin_bindings = [f"CHECKPOINT={arguments.checkpoint!r}", *arguments.gin_bindings]
        for name in ("output_dir",):
            if name in given:
                arguments.gin_bindings = [f"{name.upper()}={given[name]!r}", *arguments.gin_bindings]
        return _prepared(replace(load_configuration(arguments, SUITE).value, **given), arguments)
    if not arguments.checkpoint:
        raise UserError("say which weights: --checkpoint RUN_DIR, or a directory in Hugging Face's layout")
    split = arguments.split or ("test" if arguments.submission else "validation")
    if recipe and recipe not in SUITES:
        raise UserError(
            f"--recipe {recipe}: there is no such recipe", hint=f"{', '.join(SUITES)}, or a .gin file"
        )
    tasks = given.pop("tasks", None) or suite_named(recipe).tasks_of(split)
    output = given.pop("output_dir", None) or _default_output(arguments, recipe, split)
    given["split"] = split
    return _prepared(
        SuiteRun(checkpoint=arguments.checkpoint, tasks=tuple(tasks), output_dir=output, **given), arguments
    )


def _default_output(arguments: argparse.Namespace, recipe: str, split: str) -> str:
    name = "-".join([recipe or "tasks", split])
    return f"{arguments.checkpoint.rstrip('/')}/evaluation-{name}"


def _prepared(run: "SuiteRun", arguments: argparse.Namespace) -> "SuiteRun":
    """With the run's own tasks known, and its vocabulary where it is named only in its configuration."""
    from t5x_like.text.benchmarks import catalogue
    from t5x_like.text.tasks import registry
    from t5x_like.text.vocabularies.opening import vocabulary_files

    config = Path(run.checkpoint) / "config.gin"
    if any(name not in catalogue.benchmarks() for name in run.tasks) and config.is_file():
        own = argparse.Namespace(**{**vars(arguments), "gin_file": [str(config)], "gin_bindings": []})
        registry.register(load_part(own, "t5x_like.training.experiment.Experiment", "tasks", "TASKS"))
    if run.vocabulary or vocabulary_files(run.checkpoint):
        return run
    if config.is_file():
        own = argparse.Namespace(**{**vars(arguments), "gin_file": [str(config)], "gin_bindings": []})
        try:
            named = load_part(own, "t5x_like.training.experiment.Experiment", "vocabulary", "VOCABULARY")
        except (UserError, ValueError):
            named = None
        if isinstance(named, str):
            return replace(run, vocabulary=named)
    return replace(run, vocabulary=os.environ.get("T5X_LIKE_VOCABULARY", ""))
