"""``--checkpoint RUN_DIR``: a run's own ``config.gin`` says the tasks and lengths its weights were made for."""

import argparse
from pathlib import Path

from t5x_like.cli.arguments import add_gin_arguments
from t5x_like.gin_config.user_error import UserError


def add_saved_run_arguments(parser: argparse.ArgumentParser) -> None:
    """The gin flags, and ``--checkpoint`` in their place."""
    parser.add_argument(
        "--checkpoint",
        default="",
        metavar="RUN_DIR",
        help="the run whose newest weights to take; without --gin_file, its own configuration is used",
    )
    add_gin_arguments(parser)


def use_saved_run(arguments: argparse.Namespace, drawer: str, **macros: str | None) -> None:
    """Puts gin files and macros together from flags: ``drawer`` comes after the run's own configuration.

    Raises:
      UserError: there is neither ``--checkpoint`` nor ``--gin_file``, or no run.
    """
    if not arguments.gin_file:
        if not arguments.checkpoint:
            raise UserError("say which weights: --checkpoint RUN_DIR, or a recipe by --gin_file")
        config = Path(arguments.checkpoint) / "config.gin"
        if not config.is_file():
            hint = "a run directory has one; pass the directory that train was given as MODEL_DIR"
            raise UserError(f"--checkpoint {arguments.checkpoint}: there is no {config}", hint=hint)
        arguments.gin_file = [str(config), drawer]
    given = {"CHECKPOINT": arguments.checkpoint, **macros}
    flags = [f"{name}={value!r}" for name, value in given.items() if value]
    arguments.gin_bindings = [*flags, *arguments.gin_bindings]


def tells_by_head(checkpoint: str) -> bool:
    """Whether a run's own configuration evaluates by an encoder's head."""
    config = Path(checkpoint) / "config.gin"
    return bool(checkpoint) and config.is_file() and "HeadEvaluation" in config.read_text(encoding="utf-8")
