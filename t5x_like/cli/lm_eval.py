"""Run EleutherAI's lm-evaluation-harness (pip install lm-eval) on our checkpoints.

t5x-like lm_eval run --model t5x_like --model_args checkpoint=runs/gpt2 --tasks lambada_openai,hellaswag
t5x-like lm_eval run --model t5x_like --model_args checkpoint=runs/t5,max_length=512 --include_path tasks --tasks mine
t5x-like lm_eval enable       from now on `lm_eval --model t5x_like …` works too in this environment
t5x-like lm_eval disable      no longer

What follows is the harness' own command line: t5x-like lm_eval run --help.
"""

import argparse
import sys

from t5x_like.evaluation.harness import harness_registration
from t5x_like.gin_config.user_error import UserError
from t5x_like.partitioning.processes import initialize_processes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All of it is the harness'."""
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="run|ls|validate|enable|disable …", help="see above"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the harness and return its exit code."""
    words = arguments.words
    if not words:
        raise UserError(
            "say what to do: t5x-like lm_eval run --model t5x_like --model_args checkpoint=DIR --tasks …"
        )
    harness_registration.register()
    if words[0] == "enable":
        print(
            f"written: {harness_registration.enable()}; "
            f"lm_eval --model {harness_registration.NAME} works in this environment"
        )
        return 0
    if words[0] == "disable":
        print(f"removed: {harness_registration.disable()}")
        return 0
    from lm_eval.__main__ import cli_evaluate  # pyright: ignore[reportMissingImports] - optional

    initialize_processes()
    sys.argv = ["lm_eval", *words]
    return cli_evaluate() or 0
