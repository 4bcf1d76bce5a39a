"""Whole runs of several local processes, started as users do: killed, stopped, asked to stop, and continued."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from t5x_like.partitioning.process_watch import LOST_PROCESS
from tests.integration.programs import losses
from tests.launch import stand_ins
from tests.references import ROOT, xla_flags

pytestmark = pytest.mark.slow

RECIPE = """
from __gin__ import dynamic_registration
from t5x_like.evaluation import evaluator
from t5x_like.model.zoo import t5
from t5x_like.partitioning import mesh
from t5x_like.training import training_data

include 'gin/recipes/quickstart/pretrain.gin'

INPUTS_LENGTH = 32
TARGETS_LENGTH = 16
BATCH_SIZE = 8
TRAIN_STEPS = 30
LOG_EVERY_STEPS = 1
EVALUATE_EVERY_STEPS = 0
SAVE_EVERY_STEPS = 5
t5.T5Config:
    model_dim = 32
    mlp_dim = 64
    num_heads = 2
    head_dim = 16
    num_encoder_layers = 1
    num_decoder_layers = 1
training_data.TrainingData.validations = ()
mesh.MeshConfig.fsdp = 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Holds the recipe, the compiled programs and every run."""
    path = tmp_path_factory.mktemp("runs")
    (path / "tiny.gin").write_text(RECIPE)
    return path


def environment(folder: Path, **changes: str) -> dict[str, str]:
    settings = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XLA_FLAGS": xla_flags(),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "T5X_LIKE_HEARTBEAT_TIMEOUT_SECONDS": "30",
    }
    return os.environ | settings | changes


def start(
    folder: Path,
    name: str,
    processes: int | str = 4,
    *arguments: str,
    restarts: int = 0,
    num_devices: int = 1,
) -> subprocess.Popen:
    return subprocess.Popen(
        [
            ROOT / "launch/local/train.sh",
            *("--processes", str(processes), "--restarts", str(restarts), str(folder / "tiny.gin")),
            *("--model_dir", str(folder / name)),
            *arguments,
        ],
        cwd=ROOT,
        env=environment(folder, XLA_FLAGS=xla_flags(num_devices)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(run: subprocess.Popen) -> str:
    said = run.communicate(timeout=600)[1]
    assert run.returncode == 0, said
    return said


def interrupt(
    folder: Path, name: str, act: Callable[[subprocess.Popen], None], step: int = 7
) -> tuple[int, str]:
    """Start a run, act on it after a step, and return its exit code and what it wrote."""
    return act_after(step, start(folder, name), folder / name, act)


def act_after(
    step: int, run: subprocess.Popen, home: Path, act: Callable[[subprocess.Popen], None]
) -> tuple[int, str]:
    """Act on a run after a step, and return its exit code and what it wrote."""
    while max(losses(home), default=0) < step if (home / "metrics.jsonl").exists() else True:
        assert run.poll() is None, run.communicate()[1]
        time.sleep(0.05)
    act(run)
    said = run.communicate(timeout=300)[1]
    return run.returncode, said


def child(run: subprocess.Popen, index: int) -> int:
    """Return the process id of a run's process: the child of a child of the launcher."""

    def children(pid: int) -> list[int]:
        return [int(result) for result in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    for script in children(run.pid):
        if f"T5X_LIKE_PROCESS_ID={index}\0" in Path(f"/proc/{script}/environ").read_text():
            [process] = children(script)
            return process
    raise LookupError(index)


@pytest.fixture(scope="module")
def whole(folder) -> dict[int, float]:
    """Losses of a run of four processes that nothing interrupts."""
    said = finish(start(folder, "whole"))
    assert said.count("parameters on 4 cpu devices") == 1, "only process 0 speaks"
    assert len((folder / "whole" / "metrics.jsonl").read_text().splitlines()) == 30
    return losses(folder / "whole")


def test_a_killed_process_is_named_and_the_run_continues_to_the_bit(folder, whole):
    code, said = interrupt(folder, "killed", lambda run: os.kill(child(run, 2), signal.SIGKILL))
    assert code == 128 + signal.SIGKILL
    assert re.findall(r"ended with exit code.*", said) == ["ended with exit code 137"], said
    assert re.search(r"^process 2 of 4 \(host \S+, pid \d+\) ended with", said, re.M), said
    subprocess.run(["cp", "-r", folder / "killed", folder / "killed_then_two"], check=True)

    finish(start(folder, "killed"))
    assert losses(folder / "killed") == whole
    finish(start(folder, "killed_then_two", 2))
    resumed = losses(folder / "killed_then_two")
    assert resumed.keys() == whole.keys()
    np.testing.assert_allclose(list(resumed.values()), list(whole.values()), rtol=1e-5)


@pytest.fixture(scope="module")
def whole_of_eight_devices(folder) -> dict[int, float]:
    """Losses of a run of four processes with two devices each, which nothing interrupts."""
    finish(start(folder, "eight", num_devices=2))
    return losses(folder / "eight")


@pytest.mark.parametrize("victim", [2, 0])
def test_all_processes_start_again_after_one_was_killed(folder, whole_of_eight_devices, victim):
    name = f"restarted_{victim}"
    run = start(folder, name, restarts=3, num_devices=2)  # gloo gives a busy machine 30 s to begin
    code, said = act_after(7, run, folder / name, lambda run: os.kill(child(run, victim), signal.SIGKILL))
    assert code == 0, said
    assert said.count("exit code 137: restart") == 1
    assert f"process {victim} of 4 (host" in said
    assert losses(folder / name) == whole_of_eight_devices


def test_a_run_starts_again_with_fewer_processes(folder, whole):
    run = start(folder, "fewer", "4,2", restarts=3)
    code, said = act_after(7, run, folder / "fewer", lambda run: os.kill(child(run, 3), signal.SIGKILL))
    assert code == 0, said
    assert "parameters on 4 cpu devices" in said
    assert "parameters on 2 cpu devices" in said
    np.testing.assert_allclose(list(losses(folder / "fewer").values()), list(whole.values()), rtol=1e-5)


def test_a_stopped_process_is_named_and_ended(folder, whole):
    stopped = []

    def stop(run: subprocess.Popen) -> None:
        stopped.append(child(run, 3))
        os.kill(stopped[0], signal.SIGSTOP)

    code, said = interrupt(folder, "stopped", stop)
    assert code == LOST_PROCESS
    assert (
        f"t5x-like: process 3 of 4 (host {socket.gethostname()}, pid {stopped[0]}) gave no sign for 3" in said
    ), said
    assert "ended with exit code" not in said, "the launcher ended it"
    assert "Traceback" not in said
    assert not Path(f"/proc/{stopped[0]}").exists()


@pytest.mark.parametrize("receiver", ["the launcher", "process 3"])
def test_sigterm_saves_and_the_run_continues_to_the_bit(folder, whole, receiver):
    def ask(run: subprocess.Popen) -> None:
        os.kill(run.pid if receiver == "the launcher" else child(run, 3), signal.SIGTERM)

    code, said = interrupt(folder, receiver, ask)
    assert code == 130, said
    assert len(re.findall(r"stopped at step \d+ as asked", said)) == 1
    assert "ended with exit code" not in said
    last = max(losses(folder / receiver))
    assert (folder / receiver / str(last) / "manifest.json").is_file()
    finish(start(folder, receiver))
    assert losses(folder / receiver) == whole


def test_a_mistake_ends_all_without_a_traceback(folder):
    run = start(folder, "mistake", 2, "--gin.mesh.MeshConfig.fsdp=3")
    said = run.communicate(timeout=300)[1]
    assert run.returncode == 2
    assert "Traceback" not in said


@pytest.mark.parametrize("place", ["slurm", "gke", "tpu_vm"])
def test_every_scheduler_runs_the_real_thing(folder, whole, place, tmp_path):
    """Two processes, each with its number and coordinator from a stand-in of the scheduler."""
    programs = tmp_path / "programs"
    programs.mkdir()
    stand_ins.install(programs)
    for worker in range(2):
        home = tmp_path / str(worker) / "t5x_like"
        home.mkdir(parents=True)
        for name in ("gin", "data"):
            (home / name).symlink_to(ROOT / name)
    here = environment(folder)
    scheduler = here | {"PATH": f"{programs}:{here['PATH']}"}
    jobs = {
        "slurm": {"SLURM_JOB_ID": str(os.getpid()), "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "localhost"},
        "gke": {"IMAGE": "image", "HOSTS": "2", "ACCELERATOR": "none", "TOPOLOGY": "1x2"},
        "tpu_vm": {"TPU_NAME": "tpu", "ZONE": "zone", "WORKERS": "2", "ALL_WORKERS": str(tmp_path)}
        | {"ENDPOINTS": "localhost,localhost"},
    }
    run = subprocess.run(
        [ROOT / "launch" / place / "train.sh", folder / "tiny.gin", "--model_dir", folder / place],
        cwd=ROOT,
        env=(here if place == "gke" else scheduler) | jobs[place] | {"SLURM_SUBMIT_DIR": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    if place == "gke":
        stand_ins.run_pods(run.stdout, ROOT, here)
    result = losses(folder / place)
    assert result.keys() == whole.keys()
    np.testing.assert_allclose(list(result.values()), list(whole.values()), rtol=1e-5)
