"""Every place ends in the same command. The scripts run for real, with a `t5x-like` that repeats its call."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.launch import stand_ins
from tests.references import ROOT

LAUNCH = ROOT / "launch"
PROCESS = LAUNCH / "process.sh"
SCRIPTS = sorted(LAUNCH.glob("*/train.sh"))

# Standard error, as the launchers keep the standard output of process 0 only.
_REPEATS_ITS_CALL = """#!/bin/bash
trap 'echo "$T5X_LIKE_PROCESS_ID saves" >&2; test -n "$STUBBORN" || exit 130' TERM
echo "$T5X_LIKE_PROCESS_ID of $T5X_LIKE_NUM_PROCESSES at $T5X_LIKE_COORDINATOR: $*" >&2
test -z "$FAILS" || test "$T5X_LIKE_PROCESS_ID" != "$FAILS" || kill -KILL $$
test -z "$CODE" || exit "$CODE"
while test -n "$WAITS" || test "${FAILS:-9}" -lt "${T5X_LIKE_NUM_PROCESSES:-1}"; do sleep 0.1; done
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
    (programs / "sleep").write_text("#!/bin/sh\nexec /bin/sleep 0.1\n")
    (programs / "sleep").chmod(0o755)
    (programs / "t5x-like").write_text(_REPEATS_ITS_CALL)
    (programs / "t5x-like").chmod(0o755)

    def run(
        place: str, *arguments: str, script: str = "train.sh", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        path = f"{programs}:{os.environ['PATH']}" if place == "tpu_vm" else os.environ["PATH"]
        return subprocess.run(
            [tmp_path / "launch" / place / script, *arguments],
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
    checked = subprocess.run([shellcheck, *LAUNCH.rglob("*.sh")], capture_output=True, text=True)
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


def test_all_local_processes_start_again_as_often_as_asked(launch):
    run = launch("local", "--restarts", "2", "--processes", "3", "recipe.gin", FAILS="1")
    assert run.returncode == 128 + signal.SIGKILL
    assert re.findall("^exit code.*", run.stderr, re.M) == [
        f"exit code 137: restart {restart} of 2, from the last checkpoint" for restart in (1, 2)
    ]
    assert len(re.findall(r"^1 of 3 at", run.stderr, re.M)) == 3


def test_local_processes_start_again_in_the_numbers_that_were_named(launch):
    run = launch("local", "--processes", "3,2", "--restarts", "3", "recipe.gin", FAILS="2")
    assert "2 of 3 at localhost" in run.stderr
    assert {call for call in calls(run) if " of 2 at " in call} == {
        f"{index} of 2 at localhost:PORT: train --gin_file=recipe.gin" for index in range(2)
    }


def test_one_local_process_starts_again_too(launch):
    run = launch("local", "--restarts", "1", "recipe.gin", CODE="1")
    assert run.returncode == 1
    assert run.stderr.count("of 1 at : train --gin_file=recipe.gin") == 2


@pytest.mark.parametrize("code", ["0", "2", "3", "130"])
@pytest.mark.parametrize("processes", [(), ("--processes", "2")])
def test_ends_that_are_no_failures_are_no_reason_to_start_again(launch, code, processes):
    run = launch("local", *processes, "--restarts", "2", "recipe.gin", CODE=code)
    assert run.returncode == int(code)
    assert "restart" not in run.stderr


@pytest.mark.parametrize("processes", ["1", "2"])
def test_nothing_starts_again_after_a_signal(launch, tmp_path, processes):
    running = subprocess.Popen(
        [tmp_path / "launch/local/train.sh", "--processes", processes, "--restarts", "2", "recipe.gin"],
        env=os.environ | {"WAITS": "yes", "STUBBORN": "yes"},
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(2):
        for _ in range(int(processes)):
            running.stderr.readline()
        running.send_signal(signal.SIGTERM)
    assert "restart" not in running.communicate(timeout=30)[1]
    assert running.returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    "place",
    ["local", "slurm", "gke", "tpu_vm"],
)
def test_a_wrong_number_of_restarts_is_refused(launch, tmp_path, place):
    scheduler = {"TPU_NAME": "tpu", "ZONE": "zone", "SLURM_SUBMIT_DIR": str(tmp_path)}
    run = launch(place, "--restarts", "often", "recipe.gin", **_FOUR, **scheduler)
    assert run.returncode == 2
    assert run.stderr == "--restarts 'often': give the largest number of restarts, such as 3\n"


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


@pytest.mark.parametrize(("code", "status", "starts"), [("1", 1, 3), ("2", 2, 1), ("3", 3, 1), ("0", 0, 1)])
def test_slurm_starts_a_step_again_after_a_failure_but_not_after_a_mistake(
    launch, tmp_path, code, status, starts
):
    job = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "node7"}
    run = launch("slurm", "--restarts", "2", "recipe.gin", **job, SLURM_SUBMIT_DIR=str(tmp_path), CODE=code)
    assert run.returncode == status
    assert run.stderr.count("1 of 2 at node7:") == starts


def test_slurm_puts_a_job_that_has_saved_back_into_the_queue(launch, tmp_path):
    job = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "SLURM_JOB_NODELIST": "node7"}
    run = launch("slurm", "--restarts", "2", "recipe.gin", **job, SLURM_SUBMIT_DIR=str(tmp_path), CODE="130")
    assert run.returncode == 130
    assert "requeue 7" in run.stdout
    assert "restart" not in run.stderr
    assert "this job can't go back into the queue; submit it again to continue" in run.stderr


def test_slurm_trains_the_run_of_a_sweep_that_the_array_says(launch, tmp_path):
    job = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "4", "SLURM_NTASKS": "1"}
    shutil.move(tmp_path / "launch/slurm/sweep.sh", tmp_path / "launch/slurm/train.sh")
    run = launch("slurm", "recipe.gin", "--over", "A=1,2", **job, SLURM_SUBMIT_DIR=str(tmp_path))
    assert run.stderr == " of  at : sweep recipe.gin --over A=1,2 --index 4\n"


def test_a_kubernetes_job_restarts_all_of_its_pods_as_often_as_asked(launch):
    def spec(*flags: str) -> dict:
        return list(yaml.safe_load_all(launch("gke", *flags, "recipe.gin", **_FOUR).stdout))[1]["spec"]

    assert spec()["backoffLimit"] == 100
    assert spec("--restarts", "3")["backoffLimit"] == 12
    fails = spec()["podFailurePolicy"]["rules"][1]
    assert (fails["action"], fails["onExitCodes"]["values"]) == ("FailJob", [2, 3])


def test_each_tpu_worker_starts_its_process_again(launch, tmp_path):
    tpu = {"TPU_NAME": "tpu", "ZONE": "zone", "WORKERS": "1", "ALL_WORKERS": str(tmp_path / "workers")}
    run = launch("tpu_vm", "--restarts", "1", "recipe.gin", **tpu, ENDPOINTS="10.0.0.7", CODE="1")
    assert run.stdout.count("train --gin_file=recipe.gin") == 2, run.stderr
    assert "exit code 1: restart 1 of 1, from the last checkpoint" in run.stdout


def test_a_kubernetes_job_has_one_pod_for_each_host_and_keeps_the_quotes(launch, tmp_path):
    run = launch("gke", "recipe.gin", "--gin.MODEL_DIR='gs://b/r'", **_FOUR)
    assert "completions: 4\n" in run.stdout
    programs = f"{tmp_path}/.venv/bin:{os.environ['PATH']}"
    said = stand_ins.run_pods(run.stdout, tmp_path, os.environ | {"PATH": programs})
    assert said == [
        f"{index} of 4 at localhost:8482: train --gin_file=recipe.gin --gin.MODEL_DIR='gs://b/r'\n"
        for index in range(4)
    ]


def test_a_job_set_numbers_the_hosts_of_all_slices(launch, tmp_path):
    run = launch("gke", "recipe.gin", "--gin.MODEL_DIR='gs://b/r'", script="slices.sh", **_FOUR, SLICES="2")
    programs = f"{tmp_path}/.venv/bin:{os.environ['PATH']}"
    said = stand_ins.run_pods(run.stdout, tmp_path, os.environ | {"PATH": programs})
    assert said == [
        f"{index} of 8 at localhost:8482: train --gin_file=recipe.gin --gin.MODEL_DIR='gs://b/r'\n"
        for index in range(8)
    ]
    policy = yaml.safe_load(run.stdout)["spec"]["failurePolicy"]
    assert policy["maxRestarts"] == 25
    assert policy["rules"] == [
        {"name": "mistake", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
    ]
    run = launch("gke", "recipe.gin", script="slices.sh", **_FOUR, SLICES="two")
    assert (run.returncode, run.stderr) == (2, "SLICES='two': give the number of TPU slices, such as 2\n")


@pytest.mark.parametrize("script", ["train.sh", "slices.sh"])
def test_hosts_are_a_number(launch, script):
    run = launch("gke", "recipe.gin", script=script, **{**_FOUR, "HOSTS": "four"}, SLICES="2")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "HOSTS='four': give the number of hosts in a slice, such as 4\n"


def test_skypilot_numbers_its_nodes(launch, tmp_path):
    task = yaml.safe_load((LAUNCH / "skypilot/train.yaml").read_text(encoding="utf-8"))
    (tmp_path / "t5x-like").symlink_to(tmp_path / ".venv")
    nodes = {"SKYPILOT_NODE_IPS": "10.0.0.7\n10.0.0.8", "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_RANK": "1"}
    variables = {"RECIPE": "recipe.gin", "MODEL_DIR": "s3://bucket/run", "FLAGS": "--set BATCH_SIZE=64"}
    assert {name for name, value in task["envs"].items() if value is None} == {"RECIPE", "MODEL_DIR"}
    run = subprocess.run(
        ["bash", "-c", task["run"]],
        env=os.environ | {"HOME": str(tmp_path)} | task["envs"] | variables | nodes,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    flags = "--gin_file=recipe.gin --model_dir s3://bucket/run --set BATCH_SIZE=64"
    assert run.stderr == f"1 of 2 at 10.0.0.7:8482: train {flags}\n"


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
        ("local", "usage: launch/local/train.sh [--processes N] [--restarts N] RECIPE.gin"),
        ("slurm", "usage: sbatch"),
        ("gke", "usage: IMAGE="),
        ("tpu_vm", "TPU_NAME"),
    ],
)
def test_what_is_missing_is_said(launch, place, needed):
    run = launch(place)
    assert run.returncode != 0
    assert needed in run.stderr
