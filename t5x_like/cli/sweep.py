"""Run a recipe over a small grid and seeds, as papers tune their fine-tuning; a table of all, and the best.

t5x-like sweep gin/recipes/bert/glue_rte.gin --set INITIAL_CHECKPOINT=bert-base-uncased \\
  --over LEARNING_RATE=5e-5,4e-5,3e-5,2e-5 --seeds 5 --output runs/bert_rte
Values that belong together: --over BATCH_SIZE:TRAIN_STEPS=16:1556,32:778
A recipe may have a grid of its own, SWEEP_OVER = ('LEARNING_RATE=5e-5,3e-5',); --over replaces it.

The same command continues where it was stopped: finished runs are not repeated, others continue.
"""

import argparse
from pathlib import Path
from typing import Any

from t5x_like.cli.arguments import (
    EXPERIMENT,
    add_module_argument,
    add_override_arguments,
    load_configuration,
    load_part,
    override_flags,
)
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import write_json
from t5x_like.sweep.grid import GridPoint, grid_points
from t5x_like.sweep.outcomes import RunOutcome, best_of, results, summarize, table
from t5x_like.sweep.run_pool import Comparison, RunPool, SweepRun, is_finished, outcome_of, train_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like sweep``."""
    parser.add_argument("gin_file", nargs="+", metavar="RECIPE", help="gin files as train takes them")
    parser.add_argument(
        "--over",
        action="append",
        default=[],
        metavar="NAME=v1,v2,…",
        help="a macro and its values; may be repeated for a grid. NAME:OTHER=1:2,3:4 vary together",
    )
    parser.add_argument("--seeds", type=int, metavar="K", help="each with SEED 0 to K-1 (the recipe's own)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at the same time (1)")
    parser.add_argument(
        "--devices", default="", metavar="0,1,…", help="GPUs to share out among the jobs (each sees all)"
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="runs in DIR/runs, DIR/results.json")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="compare by this: accuracy, or glue_rte_v002/accuracy (the mean over tasks of each one's mean)",
    )
    parser.add_argument("--lowest", action="store_true", help="the lowest is the best: losses, error rates")
    parser.add_argument(
        "--at",
        choices=("last", "best"),
        default="last",
        help="take each run's last measurement, or its best (last)",
    )
    parser.add_argument("--dry_run", action="store_true", help="say which runs there are, and stop")
    add_override_arguments(parser)
    parser.add_argument("--gin_search_paths", default="", metavar="DIRS", help="as for train")
    add_module_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if all runs have finished, 130 if interrupted, 1 if a run failed."""
    if arguments.jobs < 1:
        raise UserError(f"--jobs {arguments.jobs}: give at least 1")
    devices = [name for name in arguments.devices.split(",") if name]
    if devices and len(devices) < arguments.jobs:
        raise UserError(
            f"--jobs {arguments.jobs} need at least as many --devices, and there are {len(devices)}"
        )
    if not arguments.over:
        arguments.over = _recipe_grid(arguments)
    comparison = Comparison(arguments.metric, arguments.at, arguments.lowest)
    runs = [_prepared(arguments, point) for point in grid_points(arguments.over, arguments.seeds)]
    outcomes = {
        one.point.name: outcome_of(one, "finished" if is_finished(one) else "waiting", comparison)
        for one in runs
    }
    waiting = [one for one in runs if outcomes[one.point.name].status != "finished"]
    print(f"{len(runs)} runs, {len(runs) - len(waiting)} finished before; in {arguments.output}")
    if arguments.dry_run:
        print("\n".join(f"{outcome.status:<8}  {name}" for name, outcome in outcomes.items()))
        return 0

    def ended(one: SweepRun, status: Any) -> None:
        outcomes[one.point.name] = outcome_of(one, status, comparison)
        _write(arguments, outcomes)

    interrupted = False
    try:
        RunPool(arguments.jobs, devices, lambda line: print(line, flush=True)).work(waiting, ended)
    except KeyboardInterrupt:
        interrupted = True
    return _conclude(arguments, outcomes, interrupted)


def _recipe_grid(arguments: argparse.Namespace) -> list[str]:
    """Return the values of ``--over`` that the recipe has in its macro SWEEP_OVER; none without such a macro."""
    grid = load_part(arguments, EXPERIMENT, "tasks", "SWEEP_OVER", defaults=("SWEEP_OVER = ()",))
    if not isinstance(grid, list | tuple) or not all(isinstance(over, str) for over in grid):
        raise UserError(f"SWEEP_OVER is {grid!r}; give a tuple of texts such as ('LEARNING_RATE=5e-5,3e-5',)")
    return list(grid)


def _prepared(arguments: argparse.Namespace, point: GridPoint) -> SweepRun:
    """Build the run's configuration, so that errors show before any run has started."""
    home = Path(arguments.output) / "runs" / point.name
    overrides = [*arguments.overrides, *point.bindings, f"MODEL_DIR={str(home)!r}"]
    given = argparse.Namespace(**{**vars(arguments), "overrides": overrides})
    loaded = load_configuration(given, EXPERIMENT)

    from t5x_like.training.experiment import describe  # imports JAX

    if not loaded.value.evaluations and not (arguments.metric and loaded.value.validations):
        raise UserError(
            "the recipe scores no task on held-out rows, so there is nothing to compare",
            hint="give it evaluations, or compare a validation loss: --metric validation/TASK/loss --lowest",
        )
    described = {name: value for name, value in describe(loaded.value).items() if name != "model_dir"}
    flags = [f"--gin_file={file}" for file in arguments.gin_file]
    flags += override_flags(overrides)
    flags += [f"--module={name}" for name in arguments.module]
    if arguments.gin_search_paths:
        flags.append(f"--gin_search_paths={arguments.gin_search_paths}")
    return SweepRun(point, home, train_command(flags), described)


def _write(arguments: argparse.Namespace, outcomes: dict[str, RunOutcome]) -> None:
    asked = {
        "recipe": arguments.gin_file,
        "over": arguments.over,
        "seeds": arguments.seeds,
        "at": arguments.at,
    }
    found = results(list(outcomes.values()), metric=_metric(arguments), lowest=arguments.lowest)
    write_json(f"{arguments.output}/results.json", asked | found)


def _metric(arguments: argparse.Namespace) -> str:
    return arguments.metric or "mean score"


def _conclude(arguments: argparse.Namespace, outcomes: dict[str, RunOutcome], interrupted: bool) -> int:
    _write(arguments, outcomes)
    settings = summarize(list(outcomes.values()), lowest=arguments.lowest)
    print(table(settings, metric=_metric(arguments), lowest=arguments.lowest))
    best = best_of(settings, lowest=arguments.lowest)
    if best is not None and best.settings:
        print("the best: " + ", ".join(f"{name}={value}" for name, value in best.settings.items()))
    print(f"written to {arguments.output}/results.json")
    failed = [name for name, outcome in outcomes.items() if outcome.status == "failed"]
    if failed:
        print(f"{len(failed)} of {len(outcomes)} runs failed: {', '.join(failed)}; see their train.log")
    if interrupted or any(outcome.status == "interrupted" for outcome in outcomes.values()):
        print("stopped; the same command continues from here")
        return 130
    return 1 if failed else 0
