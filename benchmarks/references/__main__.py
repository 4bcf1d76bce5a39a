"""The command ``python -m benchmarks.references DIR…``."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.references.xla_flags import xla_flags

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", xla_flags())
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.references.forms import NoForm, find_references
from benchmarks.references.reference import DifferenceError, Reference


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare all references below folders, and print those that differ.

    Args:
      arguments: Words of the command line; those of this process by default.

    Returns:
      The exit status: 0, 1 if a reference differs, 2 if a folder doesn't exist or holds no form that we compare.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.references",
        description="Compare our values with recorded ones of other implementations.",
    )
    parser.add_argument(
        "directories", nargs="+", type=Path, metavar="DIR", help="folders, searched to any depth"
    )
    directories = parser.parse_args(arguments).directories
    absent = [directory for directory in directories if not directory.exists()]
    if absent:
        return _mistake(f"there is no folder {absent[0]}; name folders of references")
    totals, passed = Counter[str](), Counter[str]()
    for directory in directories:
        before = totals.total()
        for reference in find_references(directory):
            if isinstance(reference, NoForm):
                print(f"no form  {reference.path}: {reference.reason}", flush=True)
                continue
            totals[reference.form] += 1
            difference = _difference(reference)
            passed[reference.form] += difference is None
            if difference is not None:
                print(f"differs  {reference.name}: {difference}", flush=True)
        if totals.total() == before:
            return _mistake(
                f"{directory} has no references of a form that we compare; see benchmarks/README.md"
            )
    for form, total in totals.items():
        print(f"{form}: {passed[form]:,} of {total:,}")
    print(f"passed {passed.total()} of {totals.total()}")
    return int(passed.total() < totals.total())


def _difference(reference: Reference) -> str | None:
    """Return what differs, in one line; None if nothing does."""
    try:
        reference.compare()
    except DifferenceError as difference:
        return str(difference)
    except Exception as error:  # what we refuse or can't compute differs, too
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


def _mistake(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
