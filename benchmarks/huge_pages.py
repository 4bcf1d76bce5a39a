"""Measure a training step on a CPU with and without huge pages for glibc's memory, in turn.

    python -m benchmarks.huge_pages --output benchmarks/results/huge_pages_cpu.json

Each measurement is a process of its own: ``benchmarks.step_time`` with and without
``GLIBC_TUNABLES=glibc.malloc.hugetlb=1``. Page faults are those of the whole process, libraries and compilation
included.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import about
from t5x_like.io.files import read_json, write_json

RECIPES = ("quickstart/pretrain", "tuning/gpt_pretrain")
SETTINGS = {"as it is": "", "huge pages": "glibc.malloc.hugetlb=1"}


def main() -> None:
    """Measure in turn, and write medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    result: dict[str, Any] = {**about(), "rounds": arguments.rounds, "recipes": {}}
    for recipe in RECIPES:
        rounds = [
            {name: measured(recipe, tunables) for name, tunables in SETTINGS.items()}
            for _ in range(arguments.rounds)
        ]
        entry: dict[str, Any] = {
            name: {key: statistics.median(each[name][key] for each in rounds) for key in rounds[0][name]}
            for name in SETTINGS
        }
        plain, huge = (entry[name]["step_seconds"] for name in SETTINGS)
        result["recipes"][recipe] = {**entry, "ratio_of_seconds": round(huge / plain, 3)}
        print(recipe, result["recipes"][recipe], flush=True)
    write_json(arguments.output, result)


def measured(recipe: str, tunables: str) -> dict[str, float]:
    """Return the median seconds of a step, and page faults and peak memory of its process."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "step_time.json"
        command = [sys.executable, "-m", "benchmarks.step_time", f"--gin_file=gin/recipes/{recipe}.gin"]
        command += ["--set", "MODEL_DIR=unused", "--output", str(output)]
        environment = os.environ | {"GLIBC_TUNABLES": tunables}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(process.returncode)
        return {
            "step_seconds": read_json(output)["seconds_per_step"]["median"],
            "page_faults": usage.ru_minflt,
            "peak_mib": round(usage.ru_maxrss / 1024),
        }


if __name__ == "__main__":
    main()
