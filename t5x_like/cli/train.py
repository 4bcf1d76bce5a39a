"""Train a model from a gin recipe, or continue the run that its MODEL_DIR holds.

t5x-like train --gin_file=gin/recipes/quickstart/pretrain.gin --model_dir runs/pretrain
t5x-like train --model_dir runs/pretrain               continue a run with its own configuration, by gin or Python
t5x-like train --model_dir runs/pretrain --set RunConfig.total_steps=2000    and with another value
"""

import argparse
import json
import sys

from t5x_like.cli.arguments import (
    EXPERIMENT,
    add_gin_arguments,
    add_model_dir_argument,
    import_users_modules,
    load_configuration,
)
from t5x_like.cli.number_types import non_negative
from t5x_like.gin_config.recorded_values import with_values
from t5x_like.io.files import as_path
from t5x_like.partitioning.processes import initialize_processes

DIVERGED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like train``."""
    add_gin_arguments(parser)
    add_model_dir_argument(parser)
    parser.add_argument(
        "--from_step",
        type=non_negative,
        metavar="N",
        help="continue from this saved step, not from the newest; later ones are renamed to STEP.set-aside",
    )
    parser.add_argument("--dry_run", action="store_true", help="print the resolved configuration and stop")


def run(arguments: argparse.Namespace) -> int:
    """Return 0 after the last step, 130 if the run was asked to stop and has saved, or 3 if its numbers broke."""
    experiment, text, notes = None, "", []
    home = as_path(arguments.model_dir or "")
    if arguments.gin_file or not (arguments.model_dir and (home / "experiment.json").is_file()):
        loaded = load_configuration(arguments, EXPERIMENT)
        if arguments.dry_run:
            print(loaded.annotated_text)
            return 0
        experiment, text, notes = loaded.value, loaded.text, loaded.unused
    else:
        import_users_modules(arguments)

    import jax  # takes seconds

    # These import JAX.
    from t5x_like.training import run_record, train

    if experiment is None:  # the run's config.gin is a copy for people
        recorded = run_record.read_experiment(home, model_dir=str(home))
        experiment = with_values(recorded, arguments.overrides, where=str(home))
        if arguments.dry_run:
            print(json.dumps(run_record.to_data(experiment), indent=2))
            return 0
    initialize_processes()
    if jax.process_index() == 0:
        for line in notes:
            print(f"t5x-like: note: {line}", file=sys.stderr)
    finished = train.train(experiment, config_text=text, from_step=arguments.from_step)
    if finished.diverged:
        return DIVERGED
    return 0 if finished.completed else 130
