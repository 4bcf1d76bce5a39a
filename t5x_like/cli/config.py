"""Show or validate the configuration of gin files and flags; nothing is run.

t5x-like config show --gin_file=…       every value, and the file and line it came from
t5x-like config validate --gin_file=…   says what is wrong, or that nothing is
"""

import argparse
from typing import Any

from t5x_like.cli.arguments import (
    VERB_OF_CLASS,
    add_gin_arguments,
    add_model_dir_argument,
    load_configuration,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of ``t5x-like config``."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="show|validate")
    for name, line in (
        ("show", "every value and where it came from"),
        ("validate", "build everything and stop"),
    ):
        verb = verbs.add_parser(name, help=line, allow_abbrev=False)
        add_gin_arguments(verb)
        add_model_dir_argument(verb)


def run(arguments: argparse.Namespace) -> int:
    """Prints the configuration, or that it is valid."""
    loaded = load_configuration(arguments, *VERB_OF_CLASS)
    if arguments.what == "show":
        print(loaded.annotated_text)
    for line in loaded.unused:
        print(f"# note: {line}")
    if arguments.what == "validate":
        size = _size(loaded.value)
        print(f"{', '.join(arguments.gin_file)}: valid, {len(loaded.resolved)} values{size}")
    return 0


def _size(value: Any) -> str:
    """Returns the number of parameters of an experiment's model, computed from shapes alone."""
    if not hasattr(value, "model"):
        return ""
    import jax

    from t5x_like.model.parameters import abstract  # imports JAX

    leaves = jax.tree.leaves(abstract(value.model)[1])
    return f", a model of {sum(leaf.size for leaf in leaves):,} parameters"
