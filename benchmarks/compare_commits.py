"""Compare speed and memory of two checkouts, measured in turn in one run.

    git worktree add ../baseline COMMIT
    python -m benchmarks.compare_commits ../baseline
    python -m benchmarks.compare_commits ../baseline --measure step input --rounds 3 --output result.json

Each checkout runs its own benchmark scripts, baseline first, then this one, for every round. A machine that slows down
therefore slows both. Figures are medians over the rounds; ``ratio`` is the median over rounds of this checkout's figure
divided by the baseline's of the same round. Prints a JSON object; ``--output`` writes it to a file too.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import about

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Measure:
    """One benchmark script and the figures to take from its JSON.

    Attributes:
      arguments: command line after ``python -m``; the script takes ``--output FILE``.
      figures: name of a figure -> keys that lead to it in the script's JSON.
    """

    arguments: tuple[str, ...]
    figures: dict[str, tuple[str, ...]]


_OBJECTIVES = ("span_corruption", "masked_lm", "causal_lm", "prefix_lm")
_CONVERSIONS = ("hugging_face_to_run", "run_to_hugging_face", "from_pretrained")

MEASURES = {
    "step": Measure(
        (
            *("benchmarks.step_time", "--gin_file=gin/recipes/quickstart/pretrain.gin"),
            *("--gin.MODEL_DIR='unused'", "--steps", "40"),
        ),
        {
            "seconds per step, median": ("seconds_per_step", "median"),
            "seconds per step, fastest": ("seconds_per_step", "fastest"),
            "compile seconds": ("compile_seconds",),
            "compiled temporaries, GiB": ("memory", "compiled_temporaries_gib"),
            "process peak, GiB": ("memory", "process_peak_gib"),
        },
    ),
    "input": Measure(
        ("benchmarks.input_speed", "--objective", *_OBJECTIVES, "--seconds", "3"),
        {
            f"{name}, sequences per CPU second": ("objectives", name, "sequences_per_second")
            for name in _OBJECTIVES
        },
    ),
    "corpus": Measure(
        ("benchmarks.corpus_speed", "--measure", "cleaning", "sentences", "--seconds", "4"),
        {
            f"{name}, MB per CPU second": ("measurements", name, "megabytes_per_second")
            for name in ("cleaning", "sentences")
        },
    ),
    "conversion": Measure(
        ("benchmarks.convert_memory", "--size", "large"),
        {f"{name}, peak GiB": ("large", name, "peak_gib") for name in _CONVERSIONS},
    ),
}


def run_script(checkout: Path, measure: Measure) -> dict[str, float]:
    """Run a benchmark script of ``checkout`` in a process of its own and return its figures."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        command = [sys.executable, "-m", *measure.arguments, "--output", str(output)]
        _run(command, checkout)
        result = json.loads(output.read_text())
    return {name: _look_up(result, keys) for name, keys in measure.figures.items()}


def time_help(checkout: Path) -> dict[str, float]:
    """Return the wall and CPU seconds of ``t5x-like --help``, the best of five."""
    command = [sys.executable, "-c", "from t5x_like.cli.main import main; main()", "--help"]
    wall, cpu = [], []
    for _ in range(5):
        before, start = _child_cpu_seconds(), time.perf_counter()
        _run(command, checkout)
        wall.append(time.perf_counter() - start)
        cpu.append(_child_cpu_seconds() - before)
    return {"wall seconds": min(wall), "CPU seconds": min(cpu)}


def compare(measure: Callable[[Path], dict[str, float]], baseline: Path, num_rounds: int) -> dict[str, Any]:
    """Measure both checkouts in turn.

    Args:
      measure: returns the figures of a checkout.
      baseline: root of the checkout to compare with.
      num_rounds: number of pairs.

    Returns:
      For each figure, the medians of both and the median ratio (this checkout divided by the baseline).
    """
    rounds = [(measure(baseline), measure(ROOT)) for _ in range(num_rounds)]
    return {
        name: {
            "baseline": _median([before[name] for before, _ in rounds]),
            "now": _median([after[name] for _, after in rounds]),
            "ratio": _median([after[name] / before[name] for before, after in rounds]),
        }
        for name in rounds[0][0]
    }


def _run(command: list[str], checkout: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed in {checkout}:\n{done.stderr[-3000:]}")


def _child_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _look_up(result: Any, keys: tuple[str, ...]) -> float:
    for key in keys:
        result = result[key]
    return float(result)


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 4)


def main() -> None:
    """Read the flags, measure, print and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ["help", *MEASURES]
    parser.add_argument("baseline", type=Path, help="root of another checkout of this repository")
    parser.add_argument("--measure", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of runs (3)")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="JSON file; measures of earlier runs stay in it"
    )
    arguments = parser.parse_args()
    baseline = arguments.baseline.resolve()
    if not (baseline / "t5x_like").is_dir():
        parser.error(
            f"{baseline} is no checkout of t5x_like; make one with: git worktree add {baseline} COMMIT"
        )
    revision = ["git", "-C", str(baseline), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(revision, capture_output=True, text=True, check=True).stdout.strip()
    results: dict[str, Any] = {}
    if arguments.output and arguments.output.exists():
        results = json.loads(arguments.output.read_text())
    for name in arguments.measure:
        measure = (
            time_help if name == "help" else lambda checkout, name=name: run_script(checkout, MEASURES[name])
        )
        figures = compare(measure, baseline, arguments.rounds)
        results[name] = {**about(), "baseline_commit": commit, "rounds": arguments.rounds, "figures": figures}
        print(json.dumps({name: results[name]}, indent=2), flush=True)
        if arguments.output:
            arguments.output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
