"""Show or validate the configuration of gin files and flags; nothing is run.

t5x-like config show --gin_file=…       every value, and the file and line it came from
t5x-like config validate --gin_file=…   all that train would refuse: missing files, bad rows, sizes that don't fit …
"""

import argparse

from t5x_like.cli.arguments import (
    VERB_OF_CLASS,
    add_gin_arguments,
    add_model_dir_argument,
    load_configuration,
)
from t5x_like.gin_config.configuration import Configuration
from t5x_like.gin_config.user_error import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like config``."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="show|validate")
    for name, line in (
        ("show", "every value and where it came from"),
        ("validate", "find everything that train would refuse"),
    ):
        verb = verbs.add_parser(name, help=line, allow_abbrev=False)
        add_gin_arguments(verb)
        add_model_dir_argument(verb)
        if name == "validate":
            verb.add_argument(
                "--skip_data", action="store_true", help="don't read the rows, which may be elsewhere"
            )


def run(arguments: argparse.Namespace) -> int:
    """Print the configuration, or that it is valid.

    Raises:
      UserError: ``train`` would refuse it; all reasons are listed.
    """
    loaded = load_configuration(arguments, *VERB_OF_CLASS)
    if arguments.what == "show":
        print(loaded.annotated_text)
    for line in loaded.unused:
        print(f"# note: {line}")
    if arguments.what == "validate":
        print(_validated(loaded, ", ".join(arguments.gin_file), reads_data=not arguments.skip_data))
    return 0


def _validated(loaded: Configuration, files: str, *, reads_data: bool) -> str:
    """Check what a configuration needs; return the line that says that it is valid.

    Raises:
      UserError: ``train`` would refuse it; all reasons are listed.
    """
    from t5x_like.cli.preflight import preflight  # imports JAX

    result = preflight(loaded.value, reads_data=reads_data)
    for note in result.notes:
        print(f"# note: {note}")
    if result.problems:
        listed = "\n".join(f"- {problem}" for problem in result.problems)
        count = "a problem" if len(result.problems) == 1 else f"{len(result.problems)} problems"
        raise UserError(f"{files}: {count}, nothing was trained\n{listed}")
    size = f", a model of {result.num_parameters:,} parameters" if result.num_parameters else ""
    return f"{files}: valid, {len(loaded.resolved)} values{size}"
