"""Write one self-contained HTML page: loss curves, scores and baselines, sample predictions.

t5x-like report --run "Pretraining=runs/pretrain" --evaluation runs/evaluation --output report.html
t5x-like report --gin_file=gin/recipes/quickstart/report.gin --set PRETRAIN_DIR=…
t5x-like report --model Teacher=runs/teacher --model Student=runs/student   a table of size, speed and scores
"""

import argparse
from pathlib import Path

from t5x_like.cli.arguments import REPORT, add_gin_arguments, load_configuration
from t5x_like.gin_config.user_error import UserError
from t5x_like.reports.run_report import ReportedRun, RunReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like report``."""
    parser.add_argument("--run", action="append", default=[], metavar="TITLE=DIR", help="may be repeated")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="TITLE=DIR",
        help="compare models, in a table or on the page",
    )
    parser.add_argument("--evaluation", metavar="DIR", help="with scores.json and predictions.jsonl")
    parser.add_argument(
        "--win_rate",
        action="append",
        default=[],
        metavar="DIR",
        help="what win_rate --output_dir has written; may be repeated",
    )
    parser.add_argument("--output", metavar="FILE", help="the page to write")
    parser.add_argument("--title", default="t5x_like: a report")
    add_gin_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the page, or print the table."""
    if arguments.gin_file:
        page = load_configuration(arguments, REPORT).value
    else:
        models = _titled(arguments.model)
        if models and not (arguments.run or arguments.evaluation or arguments.output):
            # JAX loads where models are measured.
            from t5x_like.reports.model_comparison import compare_models, models_table

            print(models_table(compare_models(models)))
            return 0
        if not (arguments.run and arguments.evaluation and arguments.output):
            raise UserError(
                "give --run, --evaluation and --output, or --model alone, or a recipe by --gin_file"
            )
        runs = tuple(
            ReportedRun(title=title, directory=directory)
            for title, directory in _titled(arguments.run).items()
        )
        page = RunReport(
            title=arguments.title,
            runs=runs,
            evaluation=arguments.evaluation,
            output=arguments.output,
            models=models,
            win_rates=tuple(arguments.win_rate),
        )
    page.write()
    print(f"written to {page.output}")
    return 0


def _titled(files: list[str]) -> dict[str, str]:
    """Return the directories of TITLE=DIR by title, which is the directory's name where it is left out."""
    named = (each.rpartition("=") for each in files)
    return {title or Path(directory).name: directory for title, _, directory in named}
