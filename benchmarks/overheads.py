"""Measure what the protections of a run cost: the same run with all of them and with none, in turn, in one process.

    python -m benchmarks.overheads --gin_file=gin/recipes/quickstart/pretrain.gin --runs runs/overheads \
        --output benchmarks/results/overheads_cpu.json

Protections: the guard against numbers that are not finite, skipped steps and loss spikes, the watchdog, the lock of the
directory, checksums and fsync of checkpoints. Both runs save at the same steps. Compilation is left out.
"""

import argparse
import contextlib
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax.numpy as jnp
import optax

from benchmarks.machine import about
from t5x_like.cli.arguments import EXPERIMENT, add_gin_arguments, override_flags
from t5x_like.cli.main import split_overrides
from t5x_like.gin_config.configuration import load
from t5x_like.gin_config.statements import Setting
from t5x_like.io.files import write_json
from t5x_like.training.experiment import Experiment
from t5x_like.training.hooks import Hook, RunProgress
from t5x_like.training.metrics import add
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train

_FIRST_STEPS = 20  # not timed


def main() -> None:
    """Train in turn, and write the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_gin_arguments(parser)
    parser.add_argument("--runs", required=True, metavar="DIR", help="where runs are written")
    parser.add_argument("--steps", type=int, default=220)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", required=True, metavar="FILE")
    overrides, plain = split_overrides(sys.argv[1:])
    arguments = parser.parse_args(plain)
    overrides.append(Setting("MODEL_DIR", arguments.runs, "--runs"))
    recipe = load(arguments.gin_file, overrides, roots=[EXPERIMENT]).value
    seconds: dict[str, list[float]] = {"protected": [], "bare": []}
    for _ in range(arguments.rounds):
        seconds["protected"].append(timed(recipe, arguments.steps))
        with without_protections():
            bare = recipe.with_fields(loss_spikes=None, watchdog=None)
            seconds["bare"].append(timed(bare, arguments.steps))
    result = about() | {
        "recipe": arguments.gin_file,
        "overrides": override_flags(overrides),
        "steps": arguments.steps - _FIRST_STEPS,
        "seconds": {name: [round(each, 3) for each in times] for name, times in seconds.items()},
        "ratio_of_medians": round(
            statistics.median(seconds["protected"]) / statistics.median(seconds["bare"]), 4
        ),
        "ratio_of_fastest": round(min(seconds["protected"]) / min(seconds["bare"]), 4),
    }
    write_json(arguments.output, result)
    print(result)


class Stopwatch(Hook):
    """Takes the time from the step after the first ones to the last one."""

    def __init__(self) -> None:
        self._began = 0.0
        self.seconds = 0.0

    def after_step(self, run: RunProgress) -> None:
        if run.step == _FIRST_STEPS:
            run.state["step"].block_until_ready()
            self._began = time.perf_counter()
        if run.is_last:
            run.state["step"].block_until_ready()
            self.seconds = time.perf_counter() - self._began


def timed(recipe: Experiment, steps: int) -> float:
    """Return the seconds of a new run."""
    shutil.rmtree(recipe.run.model_dir, ignore_errors=True)
    stopwatch = Stopwatch()
    intervals = Intervals(log_every_steps=20, evaluate_every_steps=0, save_every_steps=50)
    run = recipe.with_fields(
        total_steps=steps,
        intervals=intervals,
        validations=(),
        evaluations=(),
        hooks=(stopwatch,),
    )
    train(run)
    return stopwatch.seconds


@contextlib.contextmanager
def without_protections() -> Iterator[None]:
    """Leave out what can't be configured away."""

    def keep(before: Any, after: Any, totals: Any, *, gradients: Any, **_: Any) -> Any:
        norm = optax.tree.norm(gradients).astype(jnp.float32)  # which is logged in any case
        totals = totals._replace(gradient_norm=norm, steps=jnp.ones((), jnp.float32))
        return after | {"totals": add(before["totals"], totals), "skipped": before["skipped"]}

    with contextlib.ExitStack() as stack:
        for target, substitute in {
            "t5x_like.training.step.keep_if_finite": keep,
            "t5x_like.training.train.only_writer": lambda _: contextlib.nullcontext(),
            "t5x_like.training.divergence.StopOnSkippedSteps.after_step": lambda *_: None,
            "t5x_like.checkpoints.checkpoints.write_through": lambda _: None,
            "t5x_like.checkpoints.manifest._fingerprint": lambda path: {"bytes": path.stat().length},
        }.items():
            stack.enter_context(mock.patch(target, substitute))
        yield


if __name__ == "__main__":
    main()
