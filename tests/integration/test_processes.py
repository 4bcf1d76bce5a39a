"""Two processes train as one."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

from t5x_like.files import read_jsonl
from tests.integration import tiny_run

STEPS = 6


def losses(model_dir: Path) -> list[float]:
    return [line["loss"] for line in read_jsonl(model_dir / "metrics.jsonl") if line["split"] == "train"]


def start(model_dir: Path, *, num_devices: int, **environment: str) -> subprocess.Popen:
    flags = f"--xla_force_host_platform_device_count={num_devices}"
    return subprocess.Popen(
        [sys.executable, tiny_run.__file__, str(model_dir), str(STEPS)],
        env=os.environ | {"XLA_FLAGS": flags} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_give_the_losses_of_one(directory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    processes = [
        start(
            directory / "two_processes",
            num_devices=4,
            T5X_LIKE_COORDINATOR=coordinator,
            T5X_LIKE_NUM_PROCESSES="2",
            T5X_LIKE_PROCESS_ID=str(index),
        )
        for index in range(2)
    ]
    tiny_run.run(directory, model_dir=str(directory / "one_process"), total_steps=STEPS)
    for process in processes:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    np.testing.assert_allclose(
        losses(directory / "two_processes"), losses(directory / "one_process"), rtol=1e-5
    )
    assert (directory / "two_processes" / str(STEPS)).is_dir(), "they saved together"
