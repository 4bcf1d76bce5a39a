"""Commands of ``t5x-like`` as benchmarks run them, and the scores that runs leave."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from t5x_like.io.files import read_json


def command(*arguments: Any, **macros: Any) -> list[str]:
    """Return a command line of ``t5x-like``, with macros in gin's syntax."""
    program = str(Path(sys.executable).with_name("t5x-like"))
    return [program, *map(str, arguments), *(f"--gin.{name}={value!r}" for name, value in macros.items())]


def run(*arguments: Any, **macros: Any) -> None:
    """Run a command, which must succeed."""
    subprocess.run(command(*arguments, **macros), check=True)


def scores_file(run_directory: Path, step: int) -> Path:
    """Return the file with the scores that a run reached at a step."""
    return run_directory / "evaluations" / f"step_{step}" / "scores.json"


def only_task(file: Path) -> tuple[str, dict[str, Any]]:
    """Return the name and the entry of the only task in a file of scores."""
    ((name, entry),) = read_json(file)["tasks"].items()
    return name, entry
