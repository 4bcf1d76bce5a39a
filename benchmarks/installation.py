"""Measure an installation by pip: its size, its time, and the time of commands that need no accelerator.

    python -m benchmarks.installation --before REVISION --output benchmarks/results/installation_cpu.json

Installs an earlier revision, this one, and this one with the extra ``seqio``, each into an environment of its own. pip
has downloaded the wheels before. Seconds of commands are medians of several runs, files of Python compiled already.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import about
from t5x_like.io.files import write_json

COMMANDS = {
    "import t5x_like": ("bin/python", "-c", "import t5x_like"),
    "t5x-like --help": ("bin/t5x-like", "--help"),
    "t5x-like tasks list": ("bin/t5x-like", "tasks", "list"),
}


def main() -> None:
    """Install, measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--before", required=True, metavar="REVISION", help="git's name of the earlier revision"
    )
    parser.add_argument("--python", default=sys.executable, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    result: dict[str, Any] = {**about(), "before": arguments.before, "installations": {}}
    for name, revision, extra in (
        ("before", arguments.before, ""),
        ("now", "HEAD", ""),
        ("now, with [seqio]", "HEAD", "[seqio]"),
    ):
        result["installations"][name] = measured(revision, extra, arguments.python, arguments.rounds)
        print(name, result["installations"][name], flush=True)
    write_json(arguments.output, result)


def measured(revision: str, extra: str, python: str, rounds: int) -> dict[str, Any]:
    """Return megabytes and seconds of one installation.

    Args:
      revision: Revision to install.
      extra: Extra in brackets, or an empty text.
      python: Interpreter.
      rounds: Runs of each command.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, environment = Path(folder) / "source", Path(folder) / "environment"
        source.mkdir()
        archive = subprocess.run(["git", "archive", revision], capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
        subprocess.run([python, "-m", "venv", str(environment)], check=True)
        pip = [str(environment / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        start = time.perf_counter()
        subprocess.run([*pip, "install", f"{source}{extra}"], check=True)
        seconds = time.perf_counter() - start
        return {
            "megabytes": round(_size(environment) / 1e6),
            "packages": len(list(environment.glob("lib/python*/site-packages/*.dist-info"))),
            "install_seconds": round(seconds, 1),
            "seconds": {
                name: _seconds(environment, command, rounds, folder) for name, command in COMMANDS.items()
            },
        }


def _size(folder: Path) -> int:
    """Return the bytes of all files, as the disk holds them."""
    done = subprocess.run(
        ["du", "-s", "--block-size=1", str(folder)], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[0])


def _seconds(environment: Path, command: tuple[str, ...], rounds: int, folder: str) -> float:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    seconds = []
    for _ in range(rounds + 1):  # the first reads files for the first time
        start = time.perf_counter()
        subprocess.run(
            [str(environment / command[0]), *command[1:]],
            cwd=folder,
            env=variables,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        seconds.append(time.perf_counter() - start)
    return round(statistics.median(seconds[1:]), 2)


if __name__ == "__main__":
    main()
