"""Run EleutherAI's lm-evaluation-harness (pip install lm-eval) on our checkpoints.

t5x-like lm_eval run --model t5x_like --model_args checkpoint=runs/gpt2 --tasks lambada_openai,hellaswag
t5x-like lm_eval run --model t5x_like --model_args checkpoint=runs/t5,max_length=512 --include_path tasks --tasks mine
t5x-like lm_eval disable      remove the file by which earlier versions changed the plain command lm_eval

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
        "words", nargs=argparse.REMAINDER, metavar="run|ls|validate|disable …", help="see above"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the harness and return its exit code."""
    words = arguments.words
    if not words:
        raise UserError(
            "say what to do: t5x-like lm_eval run --model t5x_like --model_args checkpoint=DIR --tasks …"
        )
    if words[0] == "disable":
        print(f"removed: {harness_registration.remove_site_file()}")
        return 0
    if words[0] == "enable":
        raise UserError(
            "nothing is written into the environment any more",
            hint="t5x-like lm_eval run takes all flags of the plain command lm_eval",
        )
    harness_registration.register()
    from lm_eval.__main__ import cli_evaluate  # pyright: ignore[reportMissingImports] - optional

    initialize_processes()
    sys.argv = ["lm_eval", *words]
    return cli_evaluate() or 0
