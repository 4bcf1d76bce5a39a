"""Measure one training step: compile seconds, tokens per second, peak memory, model FLOPs utilization.

    python -m benchmarks.step_time --gin_file=gin/recipes/quickstart/pretrain.gin --set MODEL_DIR=unused
    python -m benchmarks.step_time --gin_file=… --set INPUTS_LENGTH=512 --output benchmarks/results/NAME.json

Any training recipe of any family works. Rows are full of random tokens: no data is read, and only the step is timed.
FLOPs of matrix products are counted twice: in the traced step, and in the compiled program of one device. Prints a JSON
object; ``--output`` keeps it.
"""

import argparse
import json
import sys
from typing import Any

import jax

from benchmarks.machine import about
from benchmarks.timed_step import random_batch, time_train_step
from t5x_like.cli.arguments import EXPERIMENT, add_gin_arguments, override_flags
from t5x_like.cli.main import split_overrides
from t5x_like.gin_config.configuration import load
from t5x_like.io.files import write_json
from t5x_like.planning.step_plan import resolved
from t5x_like.text.batches.loader import empty_row
from t5x_like.training.experiment import Experiment


def main() -> None:
    """Read the flags, measure, print and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_gin_arguments(parser)
    parser.add_argument("--steps", type=int, default=20, help="steps to time (20)")
    parser.add_argument("--output", help="a JSON file to write")
    overrides, plain = split_overrides(sys.argv[1:])
    arguments = parser.parse_args(plain)
    recipe: Experiment = load(arguments.gin_file, overrides, roots=[EXPERIMENT]).value
    tasks = recipe.data.tasks_of(recipe.data.train.mixture)
    experiment = resolved(recipe, tasks)
    data = experiment.data.train
    model: Any = experiment.model
    batch = random_batch(empty_row(data, tasks), batch_size=data.batch_size, vocab_size=model.vocab_size)
    result = {
        "recipe": arguments.gin_file,
        "overrides": override_flags(overrides),
        **about(),
        "jax": jax.__version__,
        "inputs_length": data.inputs_length,
        "targets_length": data.targets_length,
    }
    result |= time_train_step(
        model,
        experiment.optimizer,
        batch,
        experiment.mesh.build(),
        num_steps=arguments.steps,
        loss=experiment.method.loss,
        num_microbatches=experiment.data.num_microbatches,
        num_tasks=len(tasks.tasks),
    )
    print(json.dumps(result, indent=2))
    if arguments.output:
        write_json(arguments.output, result)


if __name__ == "__main__":
    main()
