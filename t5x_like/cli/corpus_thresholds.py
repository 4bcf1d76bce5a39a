"""The sub-verb ``t5x-like corpus thresholds``: a threshold for a model's ratings."""

import argparse

from t5x_like.cli.number_types import non_negative_number
from t5x_like.gin_config.user_error import UserError
from t5x_like.projects.table import UserTable
from t5x_like.projects.table_file import read_table
from t5x_like.reports.score_thresholds import best_outcome, threshold_outcomes, write_thresholds

HELP = """Choose a threshold for a model's ratings: precision, recall and share kept, by threshold.

t5x-like predict runs/edu --input held_out.jsonl --output predicted.jsonl
t5x-like corpus thresholds predicted.jsonl --label score --at_least 3 --output thresholds.html

A row is good if its label is at least so high. Writes the page, and its numbers next to it: thresholds.json.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument("table", metavar="TABLE", help="rows with a label and a prediction, a number each")
    parser.add_argument("--label", required=True, metavar="COLUMN", help="column of the labels")
    parser.add_argument(
        "--prediction", default="prediction", metavar="COLUMN", help="column of the predictions (%(default)s)"
    )
    parser.add_argument(
        "--at_least",
        type=non_negative_number,
        required=True,
        metavar="X",
        help="lowest label of a row that should be kept",
    )
    parser.add_argument(
        "--output", default="thresholds.html", metavar="FILE.html", help="the page to write (%(default)s)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the page and the numbers, and print the threshold of the best F1."""
    if not arguments.output.endswith(".html"):
        raise UserError(f"--output {arguments.output}: name it FILE.html; the numbers go to FILE.json")
    table = read_table(arguments.table, named=(arguments.label, arguments.prediction))
    labels = _numbers(table, arguments.label, "--label")
    scores = _numbers(table, arguments.prediction, "--prediction")
    try:
        outcomes = threshold_outcomes(scores, [label >= arguments.at_least for label in labels])
    except ValueError as error:
        raise UserError(
            f"{arguments.table}: {error}", hint="give another --at_least, or more rows"
        ) from error
    description = f"Rows with a {arguments.label} of at least {arguments.at_least:g} are good."
    write_thresholds(arguments.output, outcomes, description=description, num_rows=len(labels))
    best = best_outcome(outcomes)
    print(
        f"best F1 {best.f1:.3f} at {best.threshold:g}: keeps {best.kept:.1%}, precision {best.precision:.3f}, "
        f"recall {best.recall:.3f}\nwritten to {arguments.output}"
    )


def _numbers(table: UserTable, name: str, flag: str) -> list[float]:
    column = table.column(name, flag)
    if not column.is_number or len(column.cells) != len(table.rows):
        raise UserError(f"{flag}={name}: not every row of {table.file} has a number in this column")
    return [float(cell) for cell in column.cells]
