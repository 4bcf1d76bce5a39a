"""Commit, date and hardware of a measurement."""

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent


def about(*, num_cores: int | None = None) -> dict[str, Any]:
    """Return commit, date, machine and its load; ``num_cores`` are the cores in use, if not all."""
    used = "" if num_cores is None else f"{num_cores} of "
    return {
        "commit": _git("rev-parse", "--short", "HEAD")
        + ("+changes" if _git("status", "--porcelain") else ""),
        "date": datetime.date.today().isoformat(),
        "processor": f"{platform.machine()}, {used}{os.cpu_count()} cores",
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        # Memory of train steps on CPUs comes faster in huge pages, and from other allocators than glibc's.
        **{name: os.environ[name] for name in ("GLIBC_TUNABLES", "LD_PRELOAD") if name in os.environ},
    }


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT).stdout.strip()
