"""Every place ends in the same command. The scripts run for real, with a `t5x-like` that repeats its call."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch import stand_ins
from tests.references import ROOT

LAUNCH = ROOT / "launch"
PROCESS = LAUNCH / "process.sh"
SCRIPTS = sorted(LAUNCH.glob("*/train.sh"))

# Standard error, as the launchers keep the standard output of process 0 only.
_REPEATS_ITS_CALL = """#!/bin/bash
trap 'echo "$T5X_LIKE_PROCESS_ID saves" >&2; test -n "$STUBBORN" || exit 130' TERM
echo "$T5X_LIKE_PROCESS_ID of $T5X_LIKE_NUM_PROCESSES at $T5X_LIKE_COORDINATOR: $*" >&2
test "$T5X_LIKE_PROCESS_ID" != "$FAILS" || kill -KILL $$
while test -n "$FAILS$WAITS"; do sleep 0.1; done
"""
_FOUR = {
    "IMAGE": "place/image",
    "HOSTS": "4",
    "ACCELERATOR": "tpu-v5-lite-podslice",
    "TOPOLOGY": "4x4",
}


@pytest.fixture
def launch(tmp_path):
    """Runs a copy of a launcher, in whose repository t5x-like is the script above."""
    shutil.copytree(LAUNCH, tmp_path / "launch")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    stand_ins.install(programs)
    (programs / "t5x-like").write_text(_REPEATS_ITS_CALL)
    (programs / "t5x-like").chmod(0o755)

    def run(place: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{programs}:{os.environ['PATH']}" if place == "tpu_vm" else os.environ["PATH"]
        return subprocess.run(
            [tmp_path / "launch" / place / "train.sh", *arguments],
            env=os.environ | {"PATH": path} | environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
        )

    return run


def calls(run: subprocess.CompletedProcess[str]) -> list[str]:
    """Return what each process was called with, in the order of their numbers, without ports."""
    return sorted(re.sub(r"(?<=:)\d+", "PORT", line) for line in run.stderr.splitlines())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.parent.name)
def test_every_place_ends_in_the_same_command(script):
    assert "launch/process.sh" in script.read_text() or "${launch}/process.sh" in script.read_text()
    assert len(script.read_text().splitlines()) <= 65
    assert os.access(script, os.X_OK)
    assert 't5x-like train --gin_file="${GIN_FILE}" "$@"' in PROCESS.read_text()


def test_shellcheck_finds_nothing():
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not shellcheck:
        pytest.skip("shellcheck is not installed")
    checked = subprocess.run([shellcheck, PROCESS, *SCRIPTS], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_one_local_process_gets_the_command_as_it_was_written(launch):
    run = launch("local", "a recipe.gin", "--set=MODEL_DIR=runs/a b")
    assert run.stderr == " of 1 at : train --gin_file=a recipe.gin --set=MODEL_DIR=runs/a b\n"


def test_local_processes_are_numbered_and_share_a_coordinator(launch):
    run = launch("local", "--processes", "3", "recipe.gin", "--set", "A=b c")
    assert run.returncode == 0
    assert calls(run) == [
        f"{index} of 3 at localhost:PORT: train --gin_file=recipe.gin --set A=b c" for index in range(3)
    ]
    assert len({re.search(r":(\d+)", line)[1] for line in run.stderr.splitlines()}) == 1


def test_a_local_process_that_is_killed_is_named_and_the_others_end(launch):
    run = launch("local", "--processes", "3", "recipe.gin", FAILS="1")
    assert run.returncode == 128 + signal.SIGKILL
    assert re.search(r"^process 1 of 3 \(host \S+, pid \d+\) ended with exit code 137$", run.stderr, re.M)


def test_sigterm_asks_every_local_process_once(launch, tmp_path):
    running = subprocess.Popen(
        [tmp_path / "launch/local/train.sh", "--processes", "3", "recipe.gin"],
        env=os.environ | {"WAITS": "yes"},
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(3):
        running.stderr.readline()
    running.send_signal(signal.SIGTERM)
    said = running.communicate(timeout=30)[1]
    assert sorted(said.splitlines()) == ["0 saves", "1 saves", "2 saves"]
    assert running.returncode == 130


def test_a_second_sigterm_ends_a_local_process_at_once(launch, tmp_path):
    running = subprocess.Popen(
        [tmp_path / "launch/local/train.sh", "--processes", "2", "recipe.gin"],
        env=os.environ | {"WAITS": "yes", "STUBBORN": "yes"},
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(2):
        running.stderr.readline()
        running.stderr.readline()
        running.send_signal(signal.SIGTERM)
    running.communicate(timeout=30)
    assert running.returncode == 128 + signal.SIGKILL


def test_slurm_numbers_tasks_and_the_first_node_runs_process_0(launch, tmp_path):
    job = {
        "SLURM_JOB_ID": "5001",
        "SLURM_NTASKS": "3",
        "SLURM_JOB_NODELIST": "node7,node9",
        "SLURM_SUBMIT_DIR": str(tmp_path),
    }
    run = launch("slurm", "recipe.gin", "--gin.MODEL_DIR='/shared/run'", **job)
    assert calls(run) == [
        f"{index} of 3 at node7:PORT: train --gin_file=recipe.gin --gin.MODEL_DIR='/shared/run'"
        for index in range(3)
    ]


def test_a_kubernetes_job_has_one_pod_for_each_host_and_keeps_the_quotes(launch, tmp_path):
    run = launch("gke", "recipe.gin", "--gin.MODEL_DIR='gs://b/r'", **_FOUR)
    assert "completions: 4\n" in run.stdout
    programs = f"{tmp_path}/.venv/bin:{os.environ['PATH']}"
    said = stand_ins.run_pods(run.stdout, tmp_path, os.environ | {"PATH": programs})
    assert said == [
        f"{index} of 4 at localhost:8482: train --gin_file=recipe.gin --gin.MODEL_DIR='gs://b/r'\n"
        for index in range(4)
    ]


@pytest.mark.parametrize("endpoints", ["10.0.0.7,10.0.0.8", "unknown:id1:10.0.0.7,unknown:id2:10.0.0.8"])
def test_tpu_workers_learn_their_numbers_from_the_metadata(launch, tmp_path, endpoints):
    tpu = {"TPU_NAME": "tpu", "ZONE": "zone", "WORKERS": "2", "ALL_WORKERS": str(tmp_path / "workers")}
    run = launch("tpu_vm", "recipe.gin", "--gin.MODEL_DIR='gs://b/r'", **tpu, ENDPOINTS=endpoints)
    assert sorted(run.stdout.splitlines()) == [
        f"{index} of 2 at 10.0.0.7:8482: train --gin_file=recipe.gin --gin.MODEL_DIR='gs://b/r'"
        for index in range(2)
    ], run.stderr


@pytest.mark.parametrize(
    ("place", "needed"),
    [
        ("local", "usage: launch/local/train.sh [--processes N] RECIPE.gin"),
        ("slurm", "usage: sbatch"),
        ("gke", "usage: IMAGE="),
        ("tpu_vm", "TPU_NAME"),
    ],
)
def test_what_is_missing_is_said(launch, place, needed):
    run = launch(place)
    assert run.returncode != 0
    assert needed in run.stderr
