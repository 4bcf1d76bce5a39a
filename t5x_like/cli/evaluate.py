"""Score weights on held-out rows; writes scores.json, predictions.jsonl and, of benchmarks, a report.

t5x-like evaluate --checkpoint runs/finetune             the test rows of what the run was trained on
t5x-like evaluate --checkpoint RUN|HF_DIR --recipe glue  a suite of benchmarks; --tasks names some of them
t5x-like evaluate --checkpoint HF_DIR --recipe super_glue --num_shots 4          a decoder shown solved examples
t5x-like evaluate --checkpoint RUN --recipe glue --submission glue.zip           the file for GLUE's server
t5x-like evaluate --checkpoint RUN --recipe glue --watch                         each checkpoint as it appears
t5x-like evaluate --gin_file=gin/recipes/quickstart/evaluate.gin --set CHECKPOINT=runs/finetune …
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from t5x_like.cli.arguments import (
    EVALUATION,
    SUITE,
    add_checkpoint_arguments,
    import_users_modules,
    load_configuration,
    use_saved_run,
)
from t5x_like.cli.submission import announce_submission, write_submission_of
from t5x_like.evaluation.prompts import DECODER_STYLE
from t5x_like.gin_config.user_error import UserError
from t5x_like.partitioning.processes import initialize_processes
from t5x_like.reports.evaluation_report import write_evaluation_report
from t5x_like.reports.score_tables import left_out, run_table, scores_table, steps_table
from t5x_like.text import registry
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.suites import SUITES, suite_named
from t5x_like.text.vocabularies.opening import vocabulary_files

# Flags that are fields of SuiteEvaluation under the same name.
_FIELDS = (
    "output_dir",
    "split",
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of ``t5x-like evaluate``."""
    add_checkpoint_arguments(parser)
    parser.add_argument("--output_dir", metavar="DIR", help="where results go (RUN_DIR/evaluation)")
    parser.add_argument("--split", help="the rows to score (test; of benchmarks validation)")
    _add_task_arguments(parser.add_argument_group("benchmarks, what is evaluated"))
    _add_answer_arguments(parser.add_argument_group("benchmarks, how answers are given"))
    parser.add_argument(
        "--submission", metavar="FILE.zip", help="answer the test split, and write the file for its server"
    )


def _add_task_arguments(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--recipe", metavar="NAME", help="glue, super_glue, or a gin file that configures a SuiteEvaluation")
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
    add("--limit", type=int, metavar="N", help="only the first N questions of each task")
    add("--step", type=int, metavar="N", help="a run's checkpoint of this step, not its newest")
    add("--every_checkpoint", action="store_true", help="every step that a run has")
    add("--watch", action="store_true", help="every step, and then each as it is saved, to the run's last")
    add("--vocabulary", metavar="PATH", help="the model's vocabulary, where it is not beside the weights")
    add(
        "--num_sentinels",
        type=int,
        metavar="N",
        help="ids at the vocabulary's end that stand for spans (as the model was trained)",
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
    add("--num_shots", type=int, metavar="K", help="solved training examples before each question (0)")
    add("--shot_seed", type=int, metavar="S", help="seed of the examples that are drawn (0)")
    add("--prompt", metavar="TEXT", help="the wording of a question, with {inputs} in it")
    add("--answer", metavar="TEXT", help="the wording of an example's answer, with {targets} in it")
    add(
        "--normalization",
        choices=["none", "tokens", "bytes"],
        help="likelihoods of ranked answers over their length (none)",
    )
    add("--batch_size", type=int, metavar="N", help="questions at once (32)")
    add(
        "--inputs_length",
        type=int,
        metavar="N",
        help="longest question in tokens, the rest is cut and counted (what the model can read; 512, decoders 2,048)",
    )
    add("--max_new_tokens", type=int, metavar="N", help="longest answer in tokens (what the task's take)")
    add("--num_beams", type=int, metavar="N", help="beams of written answers (1)")
    add("--resamples", type=int, metavar="N", help="draws for the intervals of scores (1000); 0 for none")


def run(arguments: argparse.Namespace) -> int:
    """Prints each task's scores beside its baseline."""
    return _run_suite(arguments) if _wants_suite(arguments) else _run_own_tasks(arguments)


def _run_own_tasks(arguments: argparse.Namespace) -> int:
    """Evaluates a run on the held-out rows of its own tasks."""
    output = arguments.output_dir
    if not output and not arguments.gin_file and arguments.checkpoint:
        output = f"{arguments.checkpoint.rstrip('/')}/evaluation"
    by_head = not arguments.gin_file and _evaluates_head(arguments.checkpoint)
    template = "gin/runs/evaluate_head.gin" if by_head else "gin/runs/evaluate.gin"
    use_saved_run(arguments, template, OUTPUT_DIR=output, SPLIT=arguments.split)
    evaluation: Any = load_configuration(arguments, EVALUATION).value
    if by_head:
        evaluation = replace(
            evaluation, evaluations=_head_evaluations(arguments.checkpoint, evaluation.evaluations[0])
        )
    # JAX loads when the verb runs.
    from t5x_like.evaluation.saved_runs import evaluate_run

    initialize_processes()
    print(run_table(evaluate_run(evaluation)))
    print(f"written to {evaluation.output_dir}")
    return 0


def _evaluates_head(checkpoint: str) -> bool:
    """Returns True if a run's own configuration evaluates a head."""
    record = Path(checkpoint) / "experiment.json"
    return bool(checkpoint) and record.is_file() and ":HeadEvaluation" in record.read_text(encoding="utf-8")


def _head_evaluations(checkpoint: str, asked: Any) -> tuple[Any, ...]:
    """The run's own evaluations, which need not be of what it learned from; of the split that is asked for."""
    from t5x_like.training.run_record import read_recorded  # imports JAX

    given = {name: getattr(asked, name) for name in ("split", "batch_size", "limit")}
    found = read_recorded(checkpoint, "evaluations")
    return tuple(replace(each, **given) for each in found if isinstance(each, type(asked)))


def _wants_suite(arguments: argparse.Namespace) -> bool:
    """Returns True if the flags ask for benchmarks, not for a run's own held-out rows.

    Raises:
      UserError: flags for benchmarks, or a Hugging Face directory, and no benchmark.
    """
    if arguments.recipe or arguments.tasks:
        return True
    only = [*(name for name in _FIELDS if name not in ("output_dir", "split")), "submission"]
    given = [name for name in only if getattr(arguments, name) is not None]
    given += [name for name in ("every_checkpoint", "watch", "skip_missing") if getattr(arguments, name)]
    if given:
        raise UserError(
            f"--{given[0]} is for benchmarks", hint="add --recipe glue, --recipe super_glue or --tasks TASK …"
        )
    folder = Path(arguments.checkpoint)
    if arguments.checkpoint and (folder / "config.json").is_file() and not (folder / "model.json").is_file():
        raise UserError(
            f"--checkpoint {folder} is a Hugging Face directory, which has no tasks of its own",
            hint="say on what to evaluate it: --recipe glue, --recipe super_glue or --tasks TASK …",
        )
    return False


def _run_suite(arguments: argparse.Namespace) -> int:
    """Evaluates on benchmarks."""
    import_users_modules(arguments)
    if arguments.step is not None and (arguments.every_checkpoint or arguments.watch):
        raise UserError("--step names one checkpoint, --every_checkpoint and --watch take all; leave one out")
    settings = _suite_of(arguments)
    if arguments.submission:
        if (
            settings.split != "test"
            or settings.limit is not None
            or arguments.every_checkpoint
            or arguments.watch
        ):
            raise UserError(
                "--submission takes the whole test split of one checkpoint",
                hint="leave out --split, --limit …",
            )
        announce_submission(arguments.submission, settings.tasks)
    # JAX loads when the verb runs.
    from t5x_like.evaluation import every_checkpoint, suite

    initialize_processes()
    try:
        if arguments.every_checkpoint or arguments.watch:
            steps = {}
            for step, found in every_checkpoint.evaluate_steps(settings, watch=arguments.watch):
                steps[step] = found
                write_evaluation_report(f"{settings.output_dir}/step_{step}")
                print("\n".join([steps_table(steps), *left_out(found)]), flush=True)
            print(f"written to {settings.output_dir}")
            return 0
        found = suite.evaluate_suite(settings, for_server=bool(arguments.submission))
    except KeyboardInterrupt:
        if Path(settings.output_dir).exists():
            print(f"what was answered is in {settings.output_dir}; the same command goes on", file=sys.stderr)
        raise
    page = write_evaluation_report(settings.output_dir)
    print(scores_table(found))
    if arguments.submission:
        write_submission_of([settings.output_dir], arguments.submission)
    print(f"written to {settings.output_dir}; the report is {page}")
    return 0


def _suite_of(arguments: argparse.Namespace) -> Any:
    """The evaluation that the flags and the recipe describe; flags overrule the recipe.

    Raises:
      UserError: no checkpoint, or neither tasks nor a recipe.
    """
    # JAX loads when the verb runs.
    from t5x_like.evaluation.suite_settings import SuiteEvaluation

    given = {name: getattr(arguments, name) for name in _FIELDS if getattr(arguments, name) is not None}
    if arguments.prompt or arguments.answer:
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
        macros = {"CHECKPOINT": arguments.checkpoint, "OUTPUT_DIR": given.get("output_dir")}
        flags = [f"{name}={value!r}" for name, value in macros.items() if value]
        arguments.overrides = [*flags, *arguments.overrides]
        suite = replace(load_configuration(arguments, SUITE).value, **given)
    else:
        if not arguments.checkpoint:
            raise UserError(
                "say which weights: --checkpoint RUN_DIR, or a directory in Hugging Face's layout"
            )
        split = given.setdefault("split", "test" if arguments.submission else "validation")
        if recipe and recipe not in SUITES:
            raise UserError(
                f"--recipe {recipe}: there is no such recipe", hint=f"{', '.join(SUITES)}, or a .gin file"
            )
        given.setdefault("tasks", recipe and suite_named(recipe).tasks_of(split))
        default = f"{arguments.checkpoint.rstrip('/')}/evaluation-{recipe or 'tasks'}-{split}"
        given.setdefault("output_dir", default)
        suite = SuiteEvaluation(checkpoint=arguments.checkpoint, **given)
    return _with_run_settings(suite)


def _with_run_settings(suite: Any) -> Any:
    """Registers the run's own tasks, and finds its vocabulary where only its configuration names that."""
    from t5x_like.training.run_record import has_experiment, read_recorded  # imports JAX

    tasks = read_recorded(suite.checkpoint, "tasks") if has_experiment(suite.checkpoint) else ()
    if any(name not in catalogue.benchmarks() for name in suite.tasks):
        registry.register(tasks)
    if suite.vocabulary or vocabulary_files(suite.checkpoint):
        return suite
    own = {task.vocabulary for task in tasks if hasattr(task, "vocabulary")}
    return replace(
        suite, vocabulary=own.pop() if len(own) == 1 else os.environ.get("T5X_LIKE_VOCABULARY", "")
    )
