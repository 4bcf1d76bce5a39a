"""List runs, show one, or compare several, from the files that they leave.

t5x-like runs list runs --sort date                                   all runs below a directory
t5x-like runs show runs/pretrain                                      configuration, size, metrics, checkpoints
t5x-like runs compare runs/a runs/b runs/c --output compare.html      what differs, and what came of it

Nothing is changed, and no code or gin file of a run is read. Damaged lines of metrics.jsonl are left out, with a note.
"""

import argparse
import json
import os
from collections.abc import Sequence

from t5x_like.checkpoints.saved_steps import saved_steps
from t5x_like.checkpoints.steps import absolute, find_checkpoints
from t5x_like.gin_config.user_error import UserError, nearest_or_all
from t5x_like.io.files import as_path
from t5x_like.reports.rendering import printable
from t5x_like.reports.run_summary import RunSummary, find_runs, summarize_run
from t5x_like.reports.run_tables import compare_runs, run_json, run_page, runs_table, sort_key

_ORDERS = ("name", "date", "steps", "loss")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like runs``."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="list|show|compare")

    def add_verb(name: str, line: str) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=line, description=line, allow_abbrev=False)

    listing = add_verb("list", "all runs below a directory: state, steps, newest loss and scores, date")
    listing.add_argument("directory", metavar="DIR", help="a directory with runs at any depth")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.add_argument(
        "--sort",
        default="name",
        metavar="ORDER",
        help="name, date (newest first), steps (most first), loss (lowest first), or a score such as "
        "glue_rte_v002/accuracy (best first)",
    )
    show = add_verb("show", "one run: configuration, size, checkpoints, newest and best metrics")
    show.add_argument("run", metavar="RUN", help="directory of the run")
    compare = add_verb("compare", "runs side by side: values of the configuration that differ, and metrics")
    compare.add_argument("runs", nargs="+", metavar="RUN", help="directories of two runs or more")
    compare.add_argument("--output", metavar="FILE", help="also write an HTML page with the loss curves")


def run(arguments: argparse.Namespace) -> int:
    """Run the given sub-verb."""
    {"list": _list, "show": _show, "compare": _compare}[arguments.what](arguments)
    return 0


def _list(arguments: argparse.Namespace) -> None:
    directory = arguments.directory
    if not as_path(directory).is_dir():
        raise UserError(f"there is no directory {directory}")
    summaries = [
        summarize_run(path, os.path.relpath(path, absolute(directory)))
        for path in find_runs(absolute(directory))
    ]
    scores = {name for each in summaries for name in each.scores}
    if arguments.sort not in _ORDERS and summaries and arguments.sort not in scores:
        raise UserError(
            f"--sort {arguments.sort}: no run has this score",
            hint=nearest_or_all(arguments.sort, [*_ORDERS, *scores]),
        )
    summaries.sort(key=sort_key(arguments.sort))
    if arguments.json:
        print(json.dumps([run_json(each) for each in summaries], indent=2))
    else:
        print(printable(runs_table(summaries)) if summaries else f"{directory} has no runs")


def _show(arguments: argparse.Namespace) -> None:
    summary = summarize_run(arguments.run)
    print(printable(run_page(summary, saved_steps(find_checkpoints(absolute(arguments.run))[0]))))


def _compare(arguments: argparse.Namespace) -> None:
    if len(arguments.runs) < 2:
        raise UserError("give two runs or more to compare")
    paths = [os.path.realpath(run) for run in arguments.runs]
    twice = [run for run, path in zip(arguments.runs, paths, strict=True) if paths.count(path) > 1]
    if twice:
        raise UserError(f"{twice[0]} is named more than once")
    comparison = compare_runs(_summaries(arguments.runs))
    print(printable(comparison.text()))
    if arguments.output:
        comparison.write(arguments.output)
        print(f"written to {arguments.output}")


def _summaries(runs: Sequence[str]) -> list[RunSummary]:
    """Read the runs; each is named after its directory, or its path where two have one name."""
    names = [os.path.basename(os.path.normpath(run)) for run in runs]
    unique = len(set(names)) == len(names)
    return [summarize_run(run, name if unique else run) for run, name in zip(runs, names, strict=True)]
