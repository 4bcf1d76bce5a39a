"""The command line of all preparation scripts, and the table of a data card."""

import argparse
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

PathLike = str | os.PathLike[str]

_DATA_SUFFIXES = (".tsv", ".txt", ".jsonl", ".model")


def prepare_from_command_line(
    prepare: Callable[[PathLike, PathLike], None],
    *,
    about: str | None,
    package: str,
    arguments: Sequence[str] | None = None,
) -> None:
    """Run ``prepare(package, output)`` with paths from the command line and print the data card's table.

    Args:
      prepare: Writes the data.
      about: Description of the program.
      package: Help text of ``--package``.
      arguments: Command line; None for this program's.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", required=True, metavar="FILE", help=package)
    parser.add_argument("--output", required=True, metavar="FOLDER", help="folder for the splits")
    options = parser.parse_args(arguments)
    try:
        prepare(options.package, options.output)
    except (ValueError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    print(describe_files(options.output))


def describe_files(folder: PathLike) -> str:
    """Return the table of a data card: rows, bytes and sha256 of every data file."""
    lines = ["| file | rows | bytes | sha256 |", "|---|---:|---:|---|"]
    for path in sorted(Path(folder).iterdir()):
        if path.suffix not in _DATA_SUFFIXES:
            continue
        content = path.read_bytes()
        rows = content.count(b"\n") - (path.suffix == ".tsv")  # without the header
        count = "–" if path.suffix == ".model" else f"{rows:,}"
        lines.append(f"| {path.name} | {count} | {len(content):,} | {hashlib.sha256(content).hexdigest()} |")
    return "\n".join(lines)
