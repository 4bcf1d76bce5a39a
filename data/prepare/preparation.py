"""What all preparation scripts share: two options, and the table that goes into the data card."""

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
    """Runs ``prepare(package, output)`` with paths from the command line and prints the card's table."""
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
    """The table of a data card: rows, bytes and sha256 of every data file, to paste into its README.md."""
    lines = ["| file | rows | bytes | sha256 |", "|---|---:|---:|---|"]
    for path in sorted(Path(folder).iterdir()):
        if path.suffix not in _DATA_SUFFIXES:
            continue
        content = path.read_bytes()
        rows = content.count(b"\n") - (path.suffix == ".tsv")  # without the header
        count = "–" if path.suffix == ".model" else f"{rows:,}"
        lines.append(f"| {path.name} | {count} | {len(content):,} | {hashlib.sha256(content).hexdigest()} |")
    return "\n".join(lines)
