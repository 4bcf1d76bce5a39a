"""Run a recipe over a small grid and seeds, or over the settings that it compares; a table of all, and the best.

t5x-like sweep gin/recipes/bert/glue.gin --set TASK=rte --set INITIAL_CHECKPOINT=bert-base-uncased \\
  --over LEARNING_RATE=5e-5,4e-5,3e-5,2e-5 --seeds 5 --output runs/bert_rte
Values that belong together: --over BATCH_SIZE:TRAIN_STEPS=16:1556,32:778
A paper's comparison, with its figures: t5x-like sweep gin/recipes/comparisons/t5_objectives.gin --output runs/table_4

The same command continues where it was stopped: finished runs are not repeated, others continue.
"""

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from t5x_like.cli.arguments import (
    EXPERIMENT,
    add_module_argument,
    add_override_arguments,
    load_configuration,
    load_part,
    override_flags,
    undefined_macros,
)
from t5x_like.cli.number_types import non_negative, positive
from t5x_like.gin_config.gin_syntax import Override
from t5x_like.gin_config.statements import Setting
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import write_json
from t5x_like.sweep.comparison import Comparison
from t5x_like.sweep.ensembles import ensemble_runs
from t5x_like.sweep.grid import GridPoint, grid_points, is_gin_file
from t5x_like.sweep.outcomes import RunOutcome, agreement_with, best_of, results, summarize, table
from t5x_like.sweep.run_pool import (
    Criterion,
    RunPool,
    RunStage,
    Status,
    SweepRun,
    is_finished,
    outcome_of,
    verb_command,
)

_THEN = "then:"  # before the name of a macro of the second run


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
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="SETTING",
        help="of the settings that the recipe compares, these",
    )
    parser.add_argument(
        "--then",
        action="append",
        default=[],
        metavar="RECIPE",
        help="train a second run from each one's weights (its INITIAL_CHECKPOINT), whose scores count. Values of --set "
        "go to it, too, where it leaves their macros open; --set then:NAME=VALUE to it alone",
    )
    parser.add_argument(
        "--first_run_only",
        action="store_true",
        help="without a comparison's second run, and settings of that alone: compare a held-out loss, --metric "
        "validation/TASK/loss --lowest",
    )
    parser.add_argument(
        "--full_size", action="store_true", help="a paper's comparison at the paper's size, not as a toy"
    )
    parser.add_argument(
        "--seeds", type=positive, metavar="K", help="each with SEED 0 to K-1 (the recipe's own)"
    )
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="runs at the same time (1)")
    parser.add_argument(
        "--devices", default="", metavar="0,1,…", help="GPUs to share out among the jobs (each sees all)"
    )
    parser.add_argument(
        "--index",
        type=non_negative,
        metavar="I",
        help="train only run I of those that --dry_run lists, from 0, as each task of a SLURM array does; the same "
        "command without it trains what is missing and writes DIR/results.json",
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
    devices = [name for name in arguments.devices.split(",") if name]
    if devices and len(devices) < arguments.jobs:
        raise UserError(
            f"--jobs {arguments.jobs} need at least as many --devices, and there are {len(devices)}"
        )
    arguments.overrides, then_overrides = _by_run(arguments.overrides)
    compared = _comparison(arguments)
    if then_overrides and not arguments.then:
        raise UserError(f"{then_overrides[0].flag}: there is no second run; --then names its recipe")
    criterion = Criterion(arguments.metric, arguments.at, arguments.lowest)
    points = grid_points(arguments.over, arguments.seeds, _chosen(compared, arguments.only))
    runs = [_prepared(arguments, point, then_overrides) for point in points]
    flags = [f"--module={name}" for name in arguments.module]
    runs += ensemble_runs(compared, runs, output=arguments.output, flags=flags)
    outcomes = {
        one.point.name: outcome_of(one, "finished" if is_finished(one) else "waiting", criterion)
        for one in runs
    }
    waiting = [one for one in runs if outcomes[one.point.name].status != "finished"]
    print(f"{len(runs)} runs, {len(runs) - len(waiting)} finished before; in {arguments.output}")
    if arguments.dry_run:
        lines = enumerate(outcomes.items())
        print("\n".join(f"{index:>3}  {outcome.status:<8}  {name}" for index, (name, outcome) in lines))
        return 0
    if arguments.index is not None:
        return _train_one(arguments, runs, devices)

    def ended(one: SweepRun, status: Status) -> None:
        outcomes[one.point.name] = outcome_of(one, status, criterion)
        _write(arguments, compared, outcomes)

    interrupted, pool = False, RunPool(arguments.jobs, devices, lambda line: print(line, flush=True))
    try:
        pool.work([one for one in waiting if not one.members], ended)
        ensembles = [one for one in waiting if one.members and all(map(is_finished, one.members))]
        pool.work(ensembles, ended)
    except KeyboardInterrupt:
        interrupted = True
    return _conclude(arguments, compared, outcomes, interrupted)


def _train_one(arguments: argparse.Namespace, runs: Sequence[SweepRun], devices: Sequence[str]) -> int:
    """Train the run of ``--index``; returns its exit code. It writes to its own folder alone."""
    trained = [one for one in runs if not one.members]
    if arguments.index >= len(trained):
        raise UserError(
            f"--index {arguments.index}: there are {len(trained)} runs to train, 0 to {len(trained) - 1}"
        )
    chosen, statuses = trained[arguments.index], []
    if is_finished(chosen):
        return 0
    try:
        pool = RunPool(1, devices, lambda line: print(line, flush=True))
        pool.work([chosen], lambda _, status: statuses.append(status))
    except KeyboardInterrupt:
        return 130
    return {"finished": 0, "interrupted": 130}.get(statuses[0], 1)


def _comparison(arguments: argparse.Namespace) -> Comparison:
    """Return what the recipe compares, its macro COMPARISON, and complete the flags by it; flags win."""
    compared = load_part(arguments, EXPERIMENT, "tasks", "COMPARISON", defaults=("COMPARISON = None",))
    if compared is None:
        for flag in ("full_size", "first_run_only"):
            if getattr(arguments, flag):
                raise UserError(f"--{flag}: the recipe compares nothing; it has no macro COMPARISON")
        return Comparison()
    if not isinstance(compared, Comparison):
        raise UserError(f"COMPARISON is {compared!r}; it must be a comparison.Comparison() of t5x_like.sweep")
    if arguments.full_size:
        recipe, *others = arguments.gin_file
        full = compared.full_size
        compared = _user_error(f"--full_size: {recipe}", compared.at_full_size)
        assert full is not None
        arguments.gin_file = [*filter(is_gin_file, full.recipes), *others]
        arguments.overrides = [*itertools.filterfalse(is_gin_file, full.recipes), *arguments.overrides]
    else:
        compared = compared.as_toy()
    arguments.lowest = arguments.lowest or (arguments.metric is None and compared.lowest)
    arguments.metric = arguments.metric or compared.metric
    if arguments.first_run_only:
        if arguments.then:
            raise UserError(
                "--first_run_only leaves out the second run, and --then names one; give one of them"
            )
        compared = _user_error("--first_run_only", compared.of_first_run)
    arguments.then = arguments.then or list(compared.then)
    return compared


def _user_error(said: str, form: Callable[[], Comparison]) -> Comparison:
    try:
        return form()
    except ValueError as error:
        raise UserError(f"{said}: {error}") from None


def _chosen(compared: Comparison, only: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    unknown = [name for name in only if name not in compared.settings]
    if unknown:
        there = ", ".join(map(repr, compared.settings)) or "none"
        raise UserError(f"--only {unknown[0]!r}: the recipe has no such setting; its settings are {there}")
    return {name: added for name, added in compared.settings.items() if not only or name in only}


def _by_run(overrides: Sequence[Override]) -> tuple[list[Override], list[Setting]]:
    """Return the values of ``--set`` for the first run, and those with ``then:`` for the second."""
    then = [each for each in _settings(overrides) if each.name.startswith(_THEN)]
    others = [each for each in overrides if each not in then]
    return others, [each._replace(name=each.name.removeprefix(_THEN)) for each in then]


def _prepared(arguments: argparse.Namespace, point: GridPoint, then_overrides: Sequence[Setting]) -> SweepRun:
    """Build the run's configuration, so that errors show before any run has started."""
    home = Path(arguments.output) / "runs" / point.name
    first = home / "initial" if arguments.then else home
    overrides = [*arguments.overrides, *point.bindings]
    stages = [_stage(arguments, [*arguments.gin_file, *point.gin_files], overrides, first)]
    if arguments.then:
        files = [*filter(is_gin_file, arguments.then), *point.then_gin_files]
        overrides = [
            *itertools.filterfalse(is_gin_file, arguments.then),
            *_open_macros(arguments, files),
            *then_overrides,
            *point.then_bindings,
            f"INITIAL_CHECKPOINT={str(first)!r}",
        ]
        stages.append(_stage(arguments, files, overrides, home / "final"))

    from t5x_like.training.experiment import describe, num_parameters  # imports JAX

    loaded = stages[-1][1]
    if not loaded.data.evaluations and not (arguments.metric and loaded.data.validations):
        raise UserError(
            "the recipe scores no task on held-out rows, so there is nothing to compare",
            hint="give it evaluations, or compare a validation loss: --metric validation/TASK/loss --lowest",
        )
    described = {
        ("then." if index else "") + name: value
        for index, (_, experiment) in enumerate(stages)
        for name, value in describe(experiment).items()
        if name != "model_dir" and not (index and name == "start_from")
    }
    return SweepRun(point, home, tuple(stage for stage, _ in stages), described, num_parameters(stages[0][1]))


def _open_macros(arguments: argparse.Namespace, gin_files: list[str]) -> list[Override]:
    """Return the values of ``--set`` for macros that the second run's gin files leave open."""
    with_files = argparse.Namespace(**{**vars(arguments), "gin_file": gin_files, "overrides": []})
    names = undefined_macros(with_files)
    return [each for each in _settings(arguments.overrides) if each.name in names]


def _settings(overrides: Sequence[Override]) -> list[Setting]:
    return [each for each in overrides if isinstance(each, Setting)]


def _stage(
    arguments: argparse.Namespace, gin_files: list[str], overrides: list[Any], directory: Path
) -> tuple[RunStage, Any]:
    """Return the training process of gin files, and its ``Experiment``."""
    overrides = [*overrides, f"MODEL_DIR={str(directory)!r}"]
    with_files = argparse.Namespace(**{**vars(arguments), "gin_file": gin_files, "overrides": overrides})
    loaded = load_configuration(with_files, EXPERIMENT)
    flags = [f"--gin_file={file}" for file in gin_files]
    flags += override_flags(overrides)
    flags += [f"--module={name}" for name in arguments.module]
    if arguments.gin_search_paths:
        flags.append(f"--gin_search_paths={arguments.gin_search_paths}")
    return RunStage(directory, verb_command("train", flags)), loaded.value


def _write(arguments: argparse.Namespace, compared: Comparison, outcomes: dict[str, RunOutcome]) -> None:
    settings = {
        "recipe": arguments.gin_file,
        "then": arguments.then,
        "over": arguments.over,
        "seeds": arguments.seeds,
        "at": arguments.at,
    }
    measured = results(
        list(outcomes.values()), metric=_metric(arguments), lowest=arguments.lowest, comparison=compared
    )
    write_json(f"{arguments.output}/results.json", settings | measured)


def _metric(arguments: argparse.Namespace) -> str:
    return arguments.metric or "mean score"


def _conclude(
    arguments: argparse.Namespace, compared: Comparison, outcomes: dict[str, RunOutcome], interrupted: bool
) -> int:
    _write(arguments, compared, outcomes)
    settings = summarize(list(outcomes.values()), lowest=arguments.lowest)
    print(table(settings, metric=_metric(arguments), lowest=arguments.lowest, comparison=compared))
    best = best_of(settings, lowest=arguments.lowest)
    if best is not None and best.settings:
        print("the best: " + ", ".join(f"{name}={value}" for name, value in best.settings.items()))
    agreed = agreement_with(compared, settings, lowest=arguments.lowest)
    if compared.published:
        print(f"published: {compared.source}")
    if agreed is not None:
        print(agreed)
    print(f"written to {arguments.output}/results.json")
    failed = [name for name, outcome in outcomes.items() if outcome.status == "failed"]
    if failed:
        print(f"{len(failed)} of {len(outcomes)} runs failed: {', '.join(failed)}; see their train.log")
    if interrupted or any(outcome.status == "interrupted" for outcome in outcomes.values()):
        print("stopped; the same command continues from here")
        return 130
    return 1 if failed else 0
