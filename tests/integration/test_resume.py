"""A killed run goes on as if nothing had happened."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t5x_like.files import read_jsonl
from tests.integration import tiny_run

STEPS = 30


def losses(model_dir: Path) -> dict[int, float]:
    return {
        line["step"]: line["loss"]
        for line in read_jsonl(model_dir / "metrics.jsonl")
        if line["split"] == "train"
    }


def start(model_dir: Path) -> subprocess.Popen:
    command = [sys.executable, tiny_run.__file__, str(model_dir), str(STEPS)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def stop_after_step(process: subprocess.Popen, model_dir: Path, step: int, number: int) -> None:
    deadline = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < deadline:
        if (model_dir / "metrics.jsonl").exists() and max(losses(model_dir), default=0) >= step:
            process.send_signal(number)
            process.communicate(timeout=120)
            return
        time.sleep(0.01)
    pytest.fail(f"the run ended before it could be stopped: {process.communicate()[1]}")


def test_after_kill_9_and_after_sigterm_the_losses_are_the_same_bits(directory):
    tiny_run.run(directory, model_dir=str(directory / "uninterrupted"), total_steps=STEPS)

    interrupted = directory / "interrupted"
    stop_after_step(start(interrupted), interrupted, 7, signal.SIGKILL)
    process = start(interrupted)
    stop_after_step(process, interrupted, 14, signal.SIGTERM)
    assert process.returncode == 0, "SIGTERM saves and leaves politely"
    stopped_at = max(losses(interrupted))
    assert stopped_at < STEPS
    assert (interrupted / str(stopped_at)).is_dir(), "the step at which it was asked to stop is saved"
    finished = tiny_run.run(directory, model_dir=str(interrupted), total_steps=STEPS)

    assert finished.completed
    assert losses(interrupted) == losses(directory / "uninterrupted")
