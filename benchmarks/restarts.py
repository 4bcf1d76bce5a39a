"""Kill a process of a run again and again, and measure the time until the restarted run has done its next step.

    python -m benchmarks.restarts --kills 6 --runs runs/restarts --output benchmarks/results/restarts_cpu.json

A tiny T5 trains in several processes of the local launcher, with ``--restarts``. SIGKILL ends process 0, which is the
coordinator, and the last one in turns. The time runs from the signal to the line of the first step after it. The run
then continues to its end, and its losses must equal those of a run that nothing disturbed.
"""

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.faults import MACROS, RECIPE, SAVE_EVERY, losses, wait_for_first_step
from benchmarks.machine import about
from benchmarks.references.xla_flags import xla_flags
from t5x_like.io.files import write_json

_LAUNCHER = "launch/local/train.sh"


def main() -> None:
    """Disturb a run, compare it with an undisturbed one, and write the times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="where runs are written")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    result: dict[str, Any] = about() | {
        "processes": arguments.processes,
        "kills": arguments.kills,
        "steps": arguments.steps,
        "save_every_steps": SAVE_EVERY,
    }
    home = arguments.runs / "disturbed"
    seconds, lost = disturb(home, arguments.kills, arguments.processes, arguments.steps)
    undisturbed = start(arguments.runs / "undisturbed", 0, arguments.processes, arguments.steps)
    finish(undisturbed)
    result |= {
        "seconds_from_kill_to_next_step": {
            name: {"median": round(statistics.median(times), 1), "most": round(max(times), 1)}
            for name, times in seconds.items()
        },
        "steps_lost": {"median": statistics.median(lost), "most": max(lost)},
        "losses_equal": losses(home) == losses(arguments.runs / "undisturbed"),
    }
    write_json(arguments.output, result)


def disturb(
    home: Path, kills: int, num_processes: int, total_steps: int
) -> tuple[dict[str, list[float]], list[int]]:
    """Train a run to its end, and kill its processes on the way.

    Args:
      home: Directory of the run.
      kills: Number of kills.
      num_processes: Number of processes of the run.
      total_steps: Steps of the run.

    Returns:
      Seconds to the next step by the process killed, and the steps that each kill lost.
    """
    seconds: dict[str, list[float]] = {"process 0": [], "the last process": []}
    lost: list[int] = []
    run = start(home, 3 * kills, num_processes, total_steps)  # a busy machine may need more than one
    wait_for_first_step(home, run)
    for kill in range(kills):
        reached = max(losses(home))
        wait_for_step(home, run, reached + SAVE_EVERY)
        reached, victim = max(losses(home)), 0 if kill % 2 == 0 else num_processes - 1
        began = time.monotonic()
        os.kill(process_of(run, victim), signal.SIGKILL)
        resumed = wait_for_first_step(home, run)
        seconds["the last process" if victim else "process 0"].append(time.monotonic() - began)
        lost.append(reached - resumed)
    finish(run)
    return {name: times for name, times in seconds.items() if times}, lost


def start(home: Path, restarts: int, num_processes: int, total_steps: int) -> "subprocess.Popen[str]":
    """Start the launcher.

    Args:
      home: Directory of the run.
      restarts: Largest number of restarts.
      num_processes: Number of processes, of one device each.
      total_steps: Steps of the run.
    """
    macros = MACROS | {"TRAIN_STEPS": total_steps}
    values = [argument for name, value in macros.items() for argument in ("--set", f"{name}={value}")]
    flags = ["--processes", str(num_processes), "--restarts", str(restarts)]
    return subprocess.Popen(
        [_LAUNCHER, *flags, RECIPE, "--model_dir", str(home), *values],
        env=os.environ
        | {"XLA_FLAGS": xla_flags(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def wait_for_step(home: Path, run: "subprocess.Popen[str]", step: int) -> None:
    """Wait until a run has logged a step.

    Args:
      home: Directory of the run.
      run: Its launcher.
      step: The step.
    """
    while max(losses(home), default=0) < step:
        if run.poll() is not None:
            raise SystemExit(f"the run ended with {run.returncode}: {run.communicate()[1]}")
        time.sleep(0.05)


def process_of(run: "subprocess.Popen[str]", index: int) -> int:
    """Return the id of a training process: the child of a child of the launcher.

    Args:
      run: The launcher.
      index: Number of the process in its run.
    """
    for script in _children(run.pid):
        if f"T5X_LIKE_PROCESS_ID={index}\0" in Path(f"/proc/{script}/environ").read_text():
            [process] = _children(script)
            return process
    raise LookupError(index)


def finish(run: "subprocess.Popen[str]") -> None:
    """Wait until the launcher ends, which must succeed."""
    message = run.communicate()[1]
    if run.returncode:
        raise SystemExit(f"the run ended with {run.returncode}: {message}")


def _children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


if __name__ == "__main__":
    main()
