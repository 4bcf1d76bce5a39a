"""Train a tiny T5 for many steps, and sample the memory, files and threads of its process.

    python -m benchmarks.long_run --steps 20000 --runs runs/long --output benchmarks/results/long_run_cpu.json

The first tenth is start-up. Afterwards a run that leaks would grow in proportion to its steps.
"""

import argparse
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.commands import command
from benchmarks.faults import MACROS, RECIPE
from benchmarks.machine import about
from t5x_like.io.files import read_jsonl, write_json

_SECONDS_BETWEEN_SAMPLES = 2.0


def main() -> None:
    """Train, sample and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="where the run is written")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    macros = MACROS | {
        "TRAIN_STEPS": arguments.steps,
        "LOG_EVERY_STEPS": 50,
        "SAVE_EVERY_STEPS": 500,
        "EVALUATE_EVERY_STEPS": 5000,
    }
    result: dict[str, Any] = about() | {name.lower(): value for name, value in macros.items()}
    home = arguments.runs / "run"
    process = subprocess.Popen(
        command("train", f"--gin_file={RECIPE}", f"--model_dir={home}", **macros),
        stderr=subprocess.DEVNULL,
    )
    samples: list[dict[str, int]] = []
    while process.poll() is None:
        time.sleep(_SECONDS_BETWEEN_SAMPLES)
        step = newest_step(home / "metrics.jsonl")
        if step > (samples[-1]["step"] if samples else 0):
            sampled = sample(process.pid)
            samples += [{"step": step, **sampled}] if sampled else []
    if process.returncode:
        raise SystemExit(process.returncode)
    steady = [each for each in samples if each["step"] >= arguments.steps / 10]
    result["samples"] = len(steady)
    for name in ("resident_mib", "descriptors", "threads"):
        half = len(steady) // 2
        result[name] = {
            "mean_of_first_half": round(mean([each[name] for each in steady[:half]]), 1),
            "mean_of_second_half": round(mean([each[name] for each in steady[half:]]), 1),
            "most": max(each[name] for each in steady),
        }
    write_json(arguments.output, result)


def sample(process: int) -> dict[str, int] | None:
    """Return what a process uses; None if it has ended."""
    folder = Path("/proc") / str(process)
    try:
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        return {
            "resident_mib": int(status["VmRSS"].split()[0]) // 1024,
            "descriptors": len(list((folder / "fd").iterdir())),
            "threads": int(status["Threads"]),
        }
    except (OSError, KeyError):
        return None


def newest_step(metrics: Path) -> int:
    """Return the step of the newest log line."""
    return max((line["step"] for line in read_jsonl(metrics)), default=0) if metrics.exists() else 0


def mean(values: list[int]) -> float:
    """Return the mean, or 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    main()
