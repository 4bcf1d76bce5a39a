"""Make and check the zip files that the servers of GLUE and SuperGLUE score.

t5x-like submission make --output glue.zip DIR DIR …   put finished evaluations of the test split together
t5x-like submission check glue.zip                     see what is in it, and all that its server would refuse

`t5x-like evaluate --recipe glue --submission glue.zip` answers the test split and writes the file at once.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t5x_like.evaluation.scores_file import read_predictions, read_scores
from t5x_like.evaluation.submissions import check_submission, write_submission
from t5x_like.gin_config.user_error import UserError
from t5x_like.text.benchmarks.suites import SERVED, suite_of_server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like submission``."""
    verbs = parser.add_subparsers(dest="what", metavar="make|check", required=True)
    make = verbs.add_parser("make", help="put finished evaluations of the test split together")
    make.add_argument(
        "directories",
        nargs="+",
        metavar="DIR",
        help="what `evaluate --split test` has written; of encoders, one for each task's head",
    )
    make.add_argument("--output", required=True, metavar="FILE.zip", help="the file for the server")
    check = verbs.add_parser("check", help="see what is in a file, and all that its server would refuse")
    check.add_argument("file", metavar="FILE.zip")
    check.add_argument("--suite", choices=list(SERVED), help="the suite that it should be of")


def run(arguments: argparse.Namespace) -> int:
    """Run ``make`` or ``check``."""
    if arguments.what == "make":
        write_submission_of(arguments.directories, arguments.output)
    else:
        _check(arguments.file, arguments.suite)
    return 0


def announce_submission(path: str, tasks: Sequence[str]) -> None:
    """Refuse tasks whose answers can't be handed in together, and say which files will be missing.

    Args:
      path: Zip file to write.
      tasks: Tasks that will be evaluated.

    Raises:
      UserError: No server, or two, score these tasks, or ``path`` is no zip file's.
    """
    suites = {suite.name: suite for task in tasks if (suite := suite_of_server(task))}
    if not suites:
        raise UserError(f"--submission: no server takes {', '.join(tasks)}", hint="GLUE's and SuperGLUE's do")
    if len(suites) > 1:
        titles = " and ".join(suite.title for suite in suites.values())
        raise UserError(f"--submission: {titles} have servers of their own; evaluate one at a time")
    _check_name(path)
    lacking = [file.file for suite in suites.values() for file in suite.submission if file.task not in tasks]
    if lacking:
        print(
            f"{path} will lack {', '.join(lacking)}, without which the server gives no average: no "
            "evaluated task answers them",
            flush=True,
        )


def write_submission_of(directories: Sequence[str], path: str) -> None:
    """Write the file of evaluations, each of other tasks, and print its contents.

    Args:
      directories: Folders that evaluations of the test split wrote.
      path: Zip file to write.

    Raises:
      UserError: One of them is not of the whole test split, or a task is in two.
    """
    _check_name(path)
    answers: dict[str, list[dict[str, Any]]] = {}
    for directory in directories:
        entries = {
            task: entry for task, entry in read_scores(directory)["tasks"].items() if suite_of_server(task)
        }
        if any(entry["split"] != "test" or entry["limit"] is not None for entry in entries.values()):
            raise UserError(
                f"{directory} is no evaluation of the whole test split",
                hint="evaluate with --split test, and without --limit",
            )
        twice = sorted(entries.keys() & answers.keys())
        if twice:
            raise UserError(f"{directory} has answers to {twice[0]}, and so has one before it; leave one out")
        answers |= {task: read_predictions(directory, task) for task in entries}
    written = write_submission(path, answers)
    print(f"{path}: {', '.join(written.files)}, as the {written.benchmark} server wants them")
    for file, number in written.replaced.items():
        print(
            f"  {file}: {number:,} answers were none of the task's; its first class, or 0, was written for them"
        )
    if written.missing:
        print(f"  missing, without which the server gives no average: {', '.join(written.missing)}")


def _check(path: str, wanted: str | None) -> None:
    """Print what is in a submission.

    Raises:
      UserError: its server would refuse it; all faults are listed.
    """
    result = check_submission(path)
    for name, number in result.answers.items():
        print(f"{name}: {number:,} answers")
    if result.missing:
        print(f"missing, without which the server gives no average: {', '.join(result.missing)}")
    faults = list(result.errors)
    if wanted and result.benchmark and wanted != result.benchmark:
        faults.insert(0, f"these are files for the server of {result.benchmark}, not of {wanted}")
    if faults:
        listed = "\n  ".join(faults)
        raise UserError(f"{path}: the server would refuse it:\n  {listed}")
    if result.missing:
        total = len(result.answers) + len(result.missing)
        print(
            f"{path}: incomplete; {len(result.answers)} of the {total} files of {result.benchmark}, no faults in them"
        )
    else:
        print(f"{path}: ok, as the {result.benchmark} server wants it")


def _check_name(path: str) -> None:
    if Path(path).suffix != ".zip":
        raise UserError(f"{path}: servers take zip files; name one.zip")
