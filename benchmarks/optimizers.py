"""Train the quickstart's T5 with each optimizer at several rates, and write the held-out losses.

    python -m benchmarks.optimizers --seeds 0 1 2 --output benchmarks/results/optimizers_cpu.json

Rates are the same multiples of a published default of each optimizer. All optimizers but one have the same schedule: a
tenth of the steps rises, the rest falls linearly to 0. Schedule-free AdamW rises, and stays. Runs of the same seed have
the same fresh weights and batches; runs of other seeds say how far a difference is noise. Entries that ``--output`` has
are not trained again, so that several sittings fill one table, also with other ``--multiples``.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import about
from t5x_like.gin_config.configuration import load
from t5x_like.io.files import read_json, write_json
from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.muon import Muon
from t5x_like.optimizers.optimizers import Adafactor, AdamW, OptimizerConfig
from t5x_like.optimizers.schedule_free import ScheduleFreeAdamW
from t5x_like.optimizers.schedules import LinearWarmupLinearDecay, Schedule, WarmupStableDecay
from t5x_like.optimizers.stable_adamw import StableAdamW
from t5x_like.training.experiment import Experiment, describe
from t5x_like.training.train import train

RECIPE = "gin/recipes/quickstart/pretrain.gin"
_TASK = "king_james"


class Candidate(NamedTuple):
    """An optimizer of the comparison.

    Attributes:
      make: Builds it from a schedule; its other options are its defaults.
      rate: Published default.
      source: Who published it.
      falls: False if the rate stays after it rose.
    """

    make: Callable[..., OptimizerConfig]
    rate: float
    source: str
    falls: bool = True


CANDIDATES = {
    "adamw": Candidate(AdamW, 1e-3, "Kingma and Ba 2015"),
    "stable_adamw": Candidate(StableAdamW, 1e-3, "Kingma and Ba 2015, for AdamW"),
    "adamw_scaled": Candidate(
        lambda learning_rate: AdamW(learning_rate=learning_rate, multiply_by_parameter_scale=True),
        0.02,
        "Nawrot 2023: default.yaml of nanoT5",
    ),
    "schedule_free_adamw": Candidate(
        ScheduleFreeAdamW, 0.0025, "Defazio et al. 2024: facebookresearch/schedule_free", falls=False
    ),
    "muon": Candidate(Muon, 1e-3, "Kingma and Ba 2015, for AdamW, whose rate it shares (Liu et al. 2025)"),
    "lion": Candidate(Lion, 2e-4, "Chen et al. 2023, section 5: 3 to 10 times smaller than AdamW's"),
    "adafactor": Candidate(Adafactor, 0.01, "Raffel et al. 2020, section 3.1.2: the rate up to step 10,000"),
}


def main() -> None:
    """Train what is missing, write after each run, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--optimizers", nargs="+", default=list(CANDIDATES), choices=CANDIDATES)
    parser.add_argument("--multiples", nargs="+", type=float, default=[0.25, 1.0, 4.0], metavar="FACTOR")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    results: dict[str, Any] = read_json(arguments.output, dict) if arguments.output.exists() else {}
    runs = results.setdefault("runs", {})
    grid = itertools.product(arguments.seeds, arguments.multiples, arguments.optimizers)
    with tempfile.TemporaryDirectory() as folder:
        for seed, multiple, name in grid:
            key = f"{name}/rate_{multiple * CANDIDATES[name].rate:g}/seed_{seed}"
            if runs.get(key, {}).get("steps") == arguments.steps:
                continue
            run = experiment(name, multiple, seed, arguments.steps, f"{folder}/{key}")
            runs[key] = {"multiple": multiple, "source_of_default": CANDIDATES[name].source, **measure(run)}
            runs = dict(sorted(runs.items()))
            write_json(arguments.output, results | {"recipe": RECIPE, "runs": runs, "means": means(runs)})
            print(key, runs[key]["cross_entropy"], flush=True)
    for name, entry in means(runs).items():
        best = entry["best_rate"]
        print(f"{name}: {entry['rates'][best]['cross_entropy']} at {best}" if best else f"{name}: diverged")


def experiment(name: str, multiple: float, seed: int, steps: int, model_dir: str) -> Experiment:
    """Return the quickstart's pretraining by another optimizer.

    Args:
      name: Name of the optimizer in ``CANDIDATES``.
      multiple: Multiple of its default rate.
      seed: Seed of weights, dropout and order of the batches.
      steps: Steps of the run; the held-out loss is measured after the last one.
      model_dir: Folder of the run.
    """
    macros = [f"MODEL_DIR='{model_dir}'", f"SEED={seed}", f"TRAIN_STEPS={steps}", "SAVE_EVERY_STEPS=0"]
    recipe = load([RECIPE], [*macros, f"EVALUATE_EVERY_STEPS={steps}"], roots=[Experiment]).value
    candidate = CANDIDATES[name]
    schedule = rate_schedule(multiple * candidate.rate, steps, falls=candidate.falls)
    return replace(recipe, optimizer=candidate.make(learning_rate=schedule))


def rate_schedule(peak: float, steps: int, *, falls: bool) -> Schedule:
    """Return a schedule that rises for a tenth of the steps, and then falls to 0 or stays.

    Args:
      peak: Highest rate.
      steps: Steps of the run.
      falls: Whether it falls.
    """
    warmup_steps = steps // 10
    if falls:
        return LinearWarmupLinearDecay(peak=peak, warmup_steps=warmup_steps, total_steps=steps)
    return WarmupStableDecay(peak=peak, warmup_steps=warmup_steps, decay_steps=0, total_steps=steps)


def measure(run: Experiment) -> dict[str, Any]:
    """Train once, and return the held-out loss in nats a token; ``None`` if the run diverged.

    Args:
      run: From ``experiment``.
    """
    started, started_cpu = time.perf_counter(), time.process_time()
    finished = train(run)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - started_cpu
    held_out = {} if finished.diverged else finished.last[f"validation/{_TASK}"]
    return {
        "cross_entropy": round(held_out["cross_entropy"], 4) if held_out else None,
        "unigram_entropy": round(held_out["unigram_entropy"], 4) if held_out else None,
        "optimizer": describe(run.optimizer),
        "steps": run.run.total_steps,
        "seed": run.run.seed,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        **about(),
    }


def means(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return each optimizer's mean loss by rate over the seeds, its deviation, and the rate with the least.

    A rate that diverged for one seed has no mean.

    Args:
      runs: Results of ``measure`` by ``optimizer/rate_…/seed_…``.
    """
    losses: dict[str, dict[str, list[float | None]]] = {}
    for key, run in runs.items():
        name, rate, _ = key.split("/")
        losses.setdefault(name, {}).setdefault(rate, []).append(run["cross_entropy"])
    return {name: _means_by_rate(by_rate) for name, by_rate in losses.items()}


def _means_by_rate(losses: Mapping[str, list[float | None]]) -> dict[str, Any]:
    rates: dict[str, dict[str, Any]] = {}
    for rate, each in losses.items():
        known = [loss for loss in each if loss is not None]
        whole = len(known) == len(each)
        rates[rate] = {
            "cross_entropy": round(statistics.mean(known), 4) if whole else None,
            "standard_deviation": round(statistics.stdev(known), 4) if whole and len(known) > 1 else None,
            "seeds": len(each),
        }
    finished = {
        rate: each["cross_entropy"] for rate, each in rates.items() if each["cross_entropy"] is not None
    }
    return {"rates": rates, "best_rate": min(finished, key=lambda rate: finished[rate]) if finished else None}


if __name__ == "__main__":
    main()
