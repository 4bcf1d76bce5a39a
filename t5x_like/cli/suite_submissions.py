"""``t5x-like evaluate --submission``: files for the servers of GLUE and SuperGLUE."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t5x_like.gin_config.user_error import UserError

if TYPE_CHECKING:
    from t5x_like.evaluation.suite_settings import SuiteRun


def check_submission(run: "SuiteRun", arguments: argparse.Namespace) -> None:
    """Whether an evaluation can be handed in, before it begins.

    Raises:
      UserError: it can't.
    """
    from t5x_like.text.benchmarks.suites import suite_of_server

    if run.split != "test" or run.limit is not None or arguments.every_checkpoint or arguments.watch:
        raise UserError(
            "--submission takes the whole test split of one checkpoint", hint="leave out --split, --limit …"
        )
    suites = {suite.name: suite for task in run.tasks if (suite := suite_of_server(task))}
    if not suites:
        raise UserError(
            f"--submission: no server takes {', '.join(run.tasks)}", hint="GLUE's and SuperGLUE's do"
        )
    if len(suites) > 1:
        titles = " and ".join(suite.title for suite in suites.values())
        raise UserError(f"--submission: {titles} have servers of their own; evaluate one at a time")
    _check_name(arguments.submission)
    lacking = [
        form.file for suite in suites.values() for form in suite.submission if form.task not in run.tasks
    ]
    if lacking:
        print(
            f"{arguments.submission} will lack {', '.join(lacking)}, without which the server tells no average: no "
            "task that is evaluated answers them",
            flush=True,
        )


def submit(path: str, directory: str, found: Mapping[str, Any]) -> None:
    """Writes the file of one evaluation, whose ``scores.json`` is ``found``."""
    _write(path, _answers(directory, found["tasks"]))


def submit_together(arguments: argparse.Namespace) -> int:
    """Writes the file of several evaluations, each of other tasks.

    Raises:
      UserError: no file is named, or one of them is not of the whole test split, or a task is in two.
    """
    from t5x_like.evaluation.suite_run import read_suite_scores

    if not arguments.submission:
        raise UserError("--submission_of: say where to: --submission FILE.zip")
    _check_name(arguments.submission)
    answers: dict[str, list[dict[str, Any]]] = {}
    for directory in arguments.submission_of:
        found = read_suite_scores(directory)
        if found["split"] != "test" or found["limit"] is not None:
            raise UserError(
                f"{directory} is no evaluation of the whole test split",
                hint="evaluate with --split test, and without --limit",
            )
        own = _answers(directory, found["tasks"])
        twice = sorted(own.keys() & answers.keys())
        if twice:
            raise UserError(f"{directory} has answers to {twice[0]}, and so has one before it; leave one out")
        answers |= own
    _write(arguments.submission, answers)
    return 0


def check_zip(arguments: argparse.Namespace) -> int:
    """Tells what is in a submission.

    Raises:
      UserError: its server would refuse it; all faults are told.
    """
    from t5x_like.evaluation.submissions import check_submission

    path, wanted = arguments.check_submission, arguments.recipe
    found = check_submission(path)
    for name, number in found.answers.items():
        print(f"{name}: {number:,} answers")
    if found.missing:
        print(f"missing, without which the server tells no average: {', '.join(found.missing)}")
    faults = list(found.errors)
    if wanted and found.benchmark and wanted != found.benchmark:
        faults.insert(0, f"these are files for the server of {found.benchmark}, not of {wanted}")
    if faults:
        listed = "\n  ".join(faults)
        raise UserError(f"{path}: the server would refuse it:\n  {listed}")
    print(f"{path}: ok, as the {found.benchmark} server wants it")
    return 0


def _check_name(path: str) -> None:
    if Path(path).suffix != ".zip":
        raise UserError(f"--submission {path}: servers take zip files; name one.zip")


def _answers(directory: str, tasks: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    from t5x_like.io.files import read_jsonl
    from t5x_like.text.benchmarks.suites import suite_of_server

    return {
        task: list(read_jsonl(f"{directory}/{task}/predictions.jsonl"))
        for task in tasks
        if suite_of_server(task)
    }


def _write(path: str, answers: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    from t5x_like.evaluation.submissions import write_submission

    written = write_submission(path, answers)
    print(f"{path}: {', '.join(written.files)}, as the {written.benchmark} server wants them")
    for file, number in written.replaced.items():
        print(f"  {file}: {number:,} answers were none of the task's; its first class, or 0, stands for them")
    if written.missing:
        print(f"  missing, without which the server tells no average: {', '.join(written.missing)}")
