"""Train while the run is killed, its checkpoints are damaged and its disk is full; compare with an undisturbed run.

    python -m benchmarks.faults --kills 200 --runs runs/faults --output benchmarks/results/faults_cpu.json

A tiny T5 trains in lives. Each ends by SIGKILL at a random moment, also during start-up and saving. A bit of the newest
checkpoint is flipped in every tenth life. Now and then the disk is full for a while (a file system in memory, which
needs root), and now and then a second run begins in the same directory. At last the run finishes. Its weights and
losses must equal, bit for bit, those of a run to the same step that nothing disturbed.
"""

import argparse
import contextlib
import random
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.commands import command
from benchmarks.machine import about
from t5x_like.checkpoints.checkpoints import lazy_params
from t5x_like.checkpoints.steps import absolute, finished_steps
from t5x_like.io.files import read_jsonl, write_json
from t5x_like.model import parameters
from t5x_like.pretrained.model_config import read_model_config

RECIPE = "gin/recipes/quickstart/pretrain.gin"
SAVE_EVERY = 20
MACROS = {
    "INPUTS_LENGTH": 32,
    "TARGETS_LENGTH": 16,
    "BATCH_SIZE": 2,
    "LOG_EVERY_STEPS": 1,
    "EVALUATE_EVERY_STEPS": 0,
    "SAVE_EVERY_STEPS": SAVE_EVERY,
}
DISK_MIB = 256
_MANY_STEPS = 10**6


def main() -> None:
    """Disturb a run, finish it, compare it and write what happened."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="where runs are written")
    parser.add_argument("--seed", type=int, default=0, help="of moments and faults")
    parser.add_argument("--seconds", type=float, default=4.0, help="longest life after the first step")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    result: dict[str, Any] = about() | {"kills": arguments.kills, "save_every_steps": SAVE_EVERY}
    began = time.monotonic()
    with small_disk(arguments.runs / "disturbed") as (disk, is_small):
        disturbed = Disturbed(disk / "run", disk if is_small else None, random.Random(arguments.seed))
        while disturbed.counts["kill"] < arguments.kills:
            disturbed.live(arguments.seconds)
        total = max(finished_steps(absolute(disturbed.home))) + SAVE_EVERY
        finish(disturbed.home, total)
        result["minutes"] = round((time.monotonic() - began) / 60, 1)
        finish(arguments.runs / "undisturbed", total)
        result |= disturbed.summary() | {
            "steps": total,
            "weights_equal": all_equal(disturbed.home, arguments.runs / "undisturbed"),
            "losses_equal": losses(disturbed.home) == losses(arguments.runs / "undisturbed"),
        }
    write_json(arguments.output, result)


class Disturbed:
    """A run, and the faults that it met.

    Args:
      home: its directory.
      disk: a small file system that holds it; None if there is none to fill.
      chances: draws moments and faults.
    """

    def __init__(self, home: Path, disk: Path | None, chances: random.Random) -> None:
        self.home, self._chances = home, chances
        self._filler = None if disk is None else disk / "filler"
        self.counts: Counter[str] = Counter()
        self._lost: list[int] = []
        self._seconds_to_recover: list[float] = []
        self._exit_codes: Counter[str] = Counter()

    def live(self, longest_seconds: float) -> None:
        """Start the run, disturb it and kill it."""
        self.counts["life"] += 1
        number = self.counts["life"]
        if self._filler is not None and self._filler.exists():
            self._start_on_a_full_disk()
        if number % 10 == 0:
            self._flip_a_bit()
        reached = max(losses(self.home), default=0)
        began = time.monotonic()
        process = start(self.home, _MANY_STEPS)
        if number % 7 == 0:  # anywhere in start-up
            time.sleep(self._chances.uniform(0, 2 * longest_seconds))
        else:
            resumed = wait_for_first_step(self.home, process)
            self._seconds_to_recover.append(time.monotonic() - began)
            self._lost.append(reached - resumed)
            time.sleep(self._chances.uniform(0, longest_seconds))
            if number % 15 == 1:
                self._start_a_second_run()
            if number % 12 == 2 and self._filler is not None:
                self._fill_the_disk(self._filler)
        self._kill(process)

    def summary(self) -> dict[str, Any]:
        """Return what happened."""
        return {
            "lives": self.counts["life"],
            "faults": {name: each for name, each in sorted(self.counts.items()) if name != "life"},
            "exit_codes": dict(sorted(self._exit_codes.items())),
            "steps_lost": {"median": statistics.median(self._lost), "most": max(self._lost)},
            "seconds_to_first_step": {
                "median": round(statistics.median(self._seconds_to_recover), 1),
                "most": round(max(self._seconds_to_recover), 1),
            },
        }

    def _kill(self, process: "subprocess.Popen[str]") -> None:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self._exit_codes[str(process.returncode)] += 1
        self.counts["kill"] += process.returncode == -signal.SIGKILL

    def _flip_a_bit(self) -> None:
        steps = finished_steps(absolute(self.home))
        if len(steps) < 2:
            return
        files = [path for path in (self.home / str(steps[-1])).rglob("*") if path.is_file()]
        file = self._chances.choice([path for path in files if path.stat().st_size])
        content = bytearray(file.read_bytes())
        content[self._chances.randrange(len(content))] ^= 1 << self._chances.randrange(8)
        file.write_bytes(content)
        self.counts["flipped bit"] += 1

    def _start_a_second_run(self) -> None:
        second = start(self.home, _MANY_STEPS)
        message = second.communicate()[1]
        if second.returncode != 2 or "is writing" not in message:
            raise SystemExit(f"a second run ended with {second.returncode}: {message}")
        self.counts["second run, refused"] += 1

    def _fill_the_disk(self, filler: Path) -> None:
        with filler.open("wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(b"0" * 2**16)
        time.sleep(self._chances.uniform(0.5, 4))
        self.counts["full disk"] += 1
        if self._chances.random() < 0.5:  # else the run is killed while it is full
            filler.unlink()
            time.sleep(self._chances.uniform(0, 2))

    def _start_on_a_full_disk(self) -> None:
        assert self._filler is not None
        process = start(self.home, _MANY_STEPS)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it trains, and waits to save
            message = process.communicate(timeout=20)[1]
            if process.returncode != 2 or not message.splitlines()[-1].startswith("t5x-like: "):
                raise SystemExit(f"on a full disk, a run ended with {process.returncode}: {message}")
            self.counts["start on a full disk, refused"] += 1
        self._kill(process)
        self._filler.unlink()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield a folder on a small file system in memory, and whether that is so: it needs root."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder)]
    is_small = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield folder, is_small
    finally:
        if is_small:
            subprocess.run(["umount", str(folder)], check=False)


def start(home: Path, total_steps: int) -> "subprocess.Popen[str]":
    """Start or continue the run in a process of its own."""
    macros = MACROS | {"TRAIN_STEPS": total_steps}
    arguments = command("train", f"--gin_file={RECIPE}", f"--model_dir={home}", **macros)
    return subprocess.Popen(arguments, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def wait_for_first_step(home: Path, process: "subprocess.Popen[str]") -> int:
    """Wait until a run has done a step, and return the step that it continued from."""
    file, resumed = home / "metrics.jsonl", None
    before = file.stat().st_ino if file.exists() else 0
    while process.poll() is None:
        time.sleep(0.01)
        if not file.exists() or file.stat().st_ino == before:
            continue  # a run begins by writing the lines up to the step that it continues from
        newest = max(losses(home), default=0)
        resumed = newest if resumed is None else resumed
        if newest > resumed:
            return resumed
    raise SystemExit(f"the run ended with {process.returncode}: {process.communicate()[1]}")


def finish(home: Path, total_steps: int) -> None:
    """Run to a step, which must succeed."""
    process = start(home, total_steps)
    message = process.communicate()[1]
    if process.returncode:
        raise SystemExit(f"{home} ended with {process.returncode}: {message}")


def losses(home: Path) -> dict[int, float]:
    """Return the logged training losses by step."""
    if not (home / "metrics.jsonl").exists():
        return {}
    lines = read_jsonl(home / "metrics.jsonl")
    return {line["step"]: line["loss"] for line in lines if line["split"] == "train"}


def all_equal(first: Path, second: Path) -> bool:
    """Return whether the newest weights of two runs are equal, bit for bit."""
    shapes = parameters.abstract(read_model_config(first))[1]
    with lazy_params(first, shapes) as one, lazy_params(second, shapes) as other:
        pairs = zip(parameters.flatten(one).values(), parameters.flatten(other).values(), strict=True)
        return all(np.array_equal(left[...], right[...]) for left, right in pairs)


if __name__ == "__main__":
    main()
