"""Write one self-contained HTML page: loss curves, scores and baselines, sample predictions.

t5x-like report --run "Pretraining=runs/pretrain" --evaluation runs/evaluation --output report.html
t5x-like report --gin_file=gin/recipes/quickstart/report.gin --set PRETRAIN_DIR=…
"""

import argparse
from pathlib import Path

from t5x_like.cli.arguments import REPORT, add_gin_arguments, load_configuration
from t5x_like.gin_config.user_error import UserError
from t5x_like.reports.run_report import ReportedRun, RunReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like report``."""
    parser.add_argument("--run", action="append", default=[], metavar="TITLE=DIR", help="may be repeated")
    parser.add_argument("--evaluation", metavar="DIR", help="with scores.json and predictions.jsonl")
    parser.add_argument("--output", metavar="FILE", help="the page to write")
    parser.add_argument("--title", default="t5x_like: a report")
    add_gin_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the page."""
    if arguments.gin_file:
        page = load_configuration(arguments, REPORT).value
    else:
        if not (arguments.run and arguments.evaluation and arguments.output):
            raise UserError("give --run, --evaluation and --output, or a recipe by --gin_file")
        named = (each.rpartition("=") for each in arguments.run)
        runs = tuple(
            ReportedRun(title=title or Path(directory).name, directory=directory)
            for title, _, directory in named
        )
        page = RunReport(
            title=arguments.title, runs=runs, evaluation=arguments.evaluation, output=arguments.output
        )
    page.write()
    print(f"written to {page.output}")
    return 0
