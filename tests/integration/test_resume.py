"""A killed run goes on as if nothing had happened."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from t5x_like.cli.main import main
from tests.integration import tiny_run
from tests.integration.programs import finish, losses, start

STEPS = 40


def stop_after_step(process: subprocess.Popen, model_dir: Path, step: int, number: int) -> None:
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if (model_dir / "metrics.jsonl").exists() and max(losses(model_dir), default=0) >= step:
            process.send_signal(number)
            process.communicate(timeout=120)
            return
        time.sleep(0.01)
    pytest.fail(f"the run ended before it could be stopped: {process.communicate()[1]}")


@pytest.mark.slow
def test_after_kill_9_and_after_sigterm_the_losses_are_the_same_bits(directory):
    finish(start(directory / "uninterrupted", STEPS))

    interrupted = directory / "interrupted"
    stop_after_step(start(interrupted, STEPS), interrupted, 7, signal.SIGKILL)
    process = start(interrupted, STEPS)
    stop_after_step(process, interrupted, 14, signal.SIGTERM)
    assert process.returncode == 0, "SIGTERM saves and leaves politely"
    stopped_at = max(losses(interrupted))
    assert stopped_at < STEPS
    assert (interrupted / str(stopped_at)).is_dir(), "the step at which it was asked to stop is saved"
    finish(start(interrupted, STEPS))

    assert losses(interrupted) == losses(directory / "uninterrupted")


def test_a_run_continues_from_an_older_step_with_the_same_bits(directory, capfd):
    home = directory / "from_an_older_step"
    tiny_run.run(directory, model_dir=str(home), total_steps=6)
    before = losses(home)
    assert main(["train", f"--model_dir={home}", "--from_step=3"]) == 0
    assert "resumed at step 3" in capfd.readouterr().err
    assert losses(home) == before
    assert (home / "6.set-aside").is_dir()
    assert main(["train", f"--model_dir={home}", "--from_step=4"]) == 2
    assert "has no usable checkpoint of step 4; saved steps: 3, 6" in capfd.readouterr().err
