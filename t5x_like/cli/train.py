"""Train a model from a gin recipe, or continue the run that its MODEL_DIR holds."""

import argparse
import sys

from t5x_like.cli.arguments import EXPERIMENT, add_gin_arguments, add_model_dir_argument, load_configuration
from t5x_like.partitioning.processes import initialize_processes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of ``t5x-like train``."""
    add_gin_arguments(parser)
    add_model_dir_argument(parser)
    parser.add_argument("--dry_run", action="store_true", help="print the resolved configuration and stop")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 after the last step, or 130 if the run was asked to stop and has saved."""
    loaded = load_configuration(arguments, EXPERIMENT)
    if arguments.dry_run:
        print(loaded.annotated_text)
        return 0
    for line in loaded.unused:
        print(f"t5x-like: note: {line}", file=sys.stderr)

    # This imports JAX.
    from t5x_like.training.train import train

    initialize_processes()
    finished = train(loaded.value, config_text=loaded.text)
    return 0 if finished.completed else 130
