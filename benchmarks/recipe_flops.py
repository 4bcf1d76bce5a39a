"""FLOPs of pretraining by the papers' recipes, counted from the traced train step, and chip-hours at a utilization.

    python -m benchmarks.recipe_flops --output benchmarks/results/recipe_flops.json

Nothing is compiled: the FLOPs are those of the matrix products of a step without remat, times the recipe's steps. Steps
of a batch ramp count by their rows. Recipes whose entries ``--output`` has with the same sizes are not traced again.
"""

import argparse
import multiprocessing
from pathlib import Path
from typing import Any

import jax

from benchmarks.machine import about
from benchmarks.recipe_names import file_and_row, placeholders, recipe_names
from t5x_like.gin_config.configuration import load
from t5x_like.io.files import read_json, write_json
from t5x_like.model import parameters
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.planning.chips import CHIPS
from t5x_like.planning.step_plan import abstract_batch, model_flops, resolved
from t5x_like.training.experiment import Experiment
from t5x_like.training.start.fresh_weights import FreshWeights

RECIPES = [
    name
    for name in recipe_names("*/pretrain*.gin", "transformer/wmt*.gin")
    if not name.startswith("quickstart/")
]
UTILIZATION = 0.4
_CHIP = "v5e"


def main() -> None:
    """Trace what is missing, and write the file after each recipe."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipes", nargs="+", default=RECIPES, choices=RECIPES, metavar="RECIPE")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"recipes": {}}
    if Path(arguments.output).exists():
        results = read_json(arguments.output)
    results |= about() | {"chip": _CHIP, "utilization": UTILIZATION}
    for name in arguments.recipes:
        known = results["recipes"].get(name, {})
        if all(known.get(key) == value for key, value in size_of(built(name)).items()):
            continue
        # Each in a process of its own: recipes call their tasks alike.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            results["recipes"][name] = pool.apply(counted, (name,))
        results["recipes"] = dict(sorted(results["recipes"].items()))
        print(f"{name}: {results['recipes'][name]}", flush=True)
        write_json(arguments.output, results)


def built(name: str) -> Experiment:
    """Return a recipe's experiment with the paper's vocabulary size; its files are not read."""
    path, row = file_and_row(name)
    overrides = [*row, *placeholders(name), "VOCAB_SIZE=%PUBLISHED_VOCAB"]
    return load([str(path)], overrides, roots=[Experiment]).value


def size_of(experiment: Experiment) -> dict[str, int]:
    """Return rows of a full batch, steps, and rows of all steps."""
    batch_size, steps = experiment.data.train.batch_size, experiment.run.total_steps
    return {"batch_size": batch_size, "total_steps": steps, "rows": total_rows(experiment)}


def total_rows(experiment: Experiment) -> int:
    """Return the rows of all batches, which a ramp makes smaller at first."""
    batch_size, parts = experiment.data.train.batch_size, experiment.data.num_microbatches
    ramp = experiment.data.batch_size_ramp
    missing = 0
    if ramp is not None:
        growing = ramp.growing_steps(batch_size, parts)
        missing = sum(min(step, experiment.run.total_steps) for step in growing) * (batch_size // parts)
    return batch_size * experiment.run.total_steps - missing


def counted(name: str) -> dict[str, Any]:
    """Return the size of a recipe's model, and the FLOPs of its steps."""
    # A loop over microbatches would be traced once.
    whole: dict[str, Any] = {"num_microbatches": 1, "batch_size_ramp": None}
    recipe = built(name)
    tasks = recipe.data.tasks_of(recipe.data.train.mixture)
    experiment = resolved(recipe.with_fields(start=FreshWeights(), mesh=MeshConfig(data=1), **whole), tasks)
    mesh = experiment.mesh.build(jax.local_devices()[:1])
    step_flops = model_flops(experiment, tasks, mesh, abstract_batch(experiment, tasks, mesh))
    model: Any = experiment.model
    sizes = size_of(recipe)
    flops = step_flops * sizes["rows"] / sizes["batch_size"]
    return {
        **sizes,
        "parameters": parameters.count(parameters.abstract(model)[1]),
        "step_flops": step_flops,
        "flops": flops,
        "chip_hours": round(flops / (UTILIZATION * CHIPS[_CHIP].flops_per_second * 3600)),
    }


if __name__ == "__main__":
    main()
