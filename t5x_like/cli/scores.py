"""Compare finished evaluations.

t5x-like scores average seed_0/out seed_1/out seed_2/out     mean and deviation of every score over runs
"""

import argparse
import os
from collections.abc import Sequence

from t5x_like.evaluation.scores_file import ScoresFile, flat_scores, read_scores
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import write_json
from t5x_like.reports.score_tables import over_runs_table
from t5x_like.text.metrics.averages import over_runs

# Settings in which evaluations that are averaged should agree.
_DECIDING = ("split", "method", "num_shots", "limit", "num_beams", "normalization")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like scores``."""
    verbs = parser.add_subparsers(dest="what", metavar="average", required=True)
    average = verbs.add_parser("average", help="mean and deviation of every score over evaluations")
    average.add_argument("directories", nargs="+", metavar="DIR", help="what evaluate has written")
    average.add_argument("--output_dir", metavar="DIR", help="write over_runs.json there, too")


def run(arguments: argparse.Namespace) -> int:
    """Print mean and deviation of every score that the evaluations have in common.

    Raises:
      UserError: they have none, or one evaluation is named twice.
    """
    directories = arguments.directories
    paths = [os.path.realpath(directory) for directory in directories]
    twice = [name for name, path in zip(directories, paths, strict=True) if paths.count(path) > 1]
    if twice:
        raise UserError(
            f"scores average: {twice[0]} is named more than once, and would count as several runs"
        )
    evaluations = [read_scores(directory) for directory in directories]
    means = over_runs([flat_scores(scores, with_averages=True) for scores in evaluations])
    if not means:
        raise UserError("scores average: these evaluations have no score in common")
    print(over_runs_table(means))
    for name, values in _differing(evaluations).items():
        print(f"these were not evaluated alike: {name} is {' and '.join(values)}")
    if arguments.output_dir:
        means_of_runs = {
            "runs": directories,
            "scores": {name: each._asdict() for name, each in means.items()},
        }
        write_json(f"{arguments.output_dir}/over_runs.json", means_of_runs)
        print(f"written to {arguments.output_dir}/over_runs.json")
    return 0


def _differing(evaluations: Sequence[ScoresFile]) -> dict[str, list[str]]:
    """Return the settings in which evaluations differ, except for the weights, with their values."""
    values = {
        name: list(dict.fromkeys(str(evaluation["settings"].get(name)) for evaluation in evaluations))
        for name in _DECIDING
    }
    return {name: different for name, different in values.items() if len(different) > 1}
