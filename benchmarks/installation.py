"""Measure an installation by pip: its size, its time, and the time of commands that need no accelerator.

    python -m benchmarks.installation --before REVISION --output benchmarks/results/installation_cpu.json

Installs an earlier revision, this one, and this one with the extra ``seqio``, each into an environment of its own. pip
has downloaded the wheels before. Seconds of commands are medians of several runs, files of Python compiled already.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.machine import about
from t5x_like.io.files import write_json

COMMANDS = {
    "import t5x_like": ("bin/python", "-c", "import t5x_like"),
    "t5x-like --help": ("bin/t5x-like", "--help"),
    "t5x-like tasks list": ("bin/t5x-like", "tasks", "list"),
}

INSTALLATIONS = {"before": "", "now": "", "now, with [seqio]": "[seqio]"}  # extras of each


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
    with tempfile.TemporaryDirectory() as folder:
        environments = {name: Path(folder) / name.replace(" ", "_") for name in INSTALLATIONS}
        installations = {
            name: installed(
                arguments.before if name == "before" else "HEAD", extra, arguments.python, environments[name]
            )
            for name, extra in INSTALLATIONS.items()
        }
        for name, seconds in command_seconds(environments, arguments.rounds, folder).items():
            installations[name]["seconds"] = seconds
    for name, measured in installations.items():
        print(name, measured, flush=True)
    write_json(arguments.output, {**about(), "before": arguments.before, "installations": installations})


def installed(revision: str, extra: str, python: str, environment: Path) -> dict[str, Any]:
    """Install a revision and return the megabytes, packages and seconds of that.

    Args:
      revision: Revision to install.
      extra: Extra in brackets, or an empty text.
      python: Interpreter.
      environment: Folder of the environment to make.
    """
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as source:
        archive = subprocess.run(["git", "archive", revision], capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
        start, start_cpu = time.perf_counter(), cpu_seconds()
        subprocess.run([*pip, "install", f"{source}{extra}"], check=True)
        seconds, seconds_cpu = time.perf_counter() - start, cpu_seconds() - start_cpu
    return {
        "megabytes": round(size_of(environment) / 1e6),
        "packages": len(list(environment.glob("lib/python*/site-packages/*.dist-info"))),
        "install_seconds": round(seconds, 1),
        "install_cpu_seconds": round(seconds_cpu, 1),
    }


def cpu_seconds() -> float:
    """Return the seconds that processors worked for the processes that have ended, however busy the machine is."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def command_seconds(
    environments: Mapping[str, Path], rounds: int, folder: str
) -> dict[str, dict[str, float]]:
    """Return the median seconds of each command, by installation.

    Args:
      environments: Folder of each installation.
      rounds: Runs of each command. The installations take turns, so a busy moment is shared.
      folder: Working directory.
    """
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    medians: dict[str, dict[str, float]] = {name: {} for name in environments}
    for title, command in COMMANDS.items():
        seconds: dict[str, list[float]] = {name: [] for name in environments}
        for _ in range(rounds + 1):  # the first reads files for the first time
            for name, environment in environments.items():
                start = time.perf_counter()
                subprocess.run(
                    [str(environment / command[0]), *command[1:]],
                    cwd=folder,
                    env=variables,
                    stdout=subprocess.DEVNULL,
                    check=True,
                )
                seconds[name].append(time.perf_counter() - start)
        for name in environments:
            medians[name][title] = round(statistics.median(seconds[name][1:]), 2)
    return medians


def size_of(folder: Path) -> int:
    """Return the bytes of all files, as the disk holds them."""
    done = subprocess.run(
        ["du", "-s", "--block-size=1", str(folder)], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[0])


if __name__ == "__main__":
    main()
