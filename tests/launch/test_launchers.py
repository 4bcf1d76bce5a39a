"""Every place ends in the same command. The scripts run for real, with a `t5x-like` that repeats its call."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.references import ROOT

LAUNCH = ROOT / "launch"
SCRIPTS = sorted(LAUNCH.glob("*/train.sh"))

_REPEATS_ITS_CALL = """#!/bin/sh
echo "$T5X_LIKE_PROCESS_ID of $T5X_LIKE_NUM_PROCESSES" \
  "at ${T5X_LIKE_COORDINATOR%%:*} $T5X_LIKE_DISTRIBUTED: $*"
test "$T5X_LIKE_PROCESS_ID" != "$FAILS" || exit 3
test -z "$FAILS" || exec sleep 60
"""
_SRUN = """#!/bin/sh
shift
exec "$@"
"""


@pytest.fixture
def launch(tmp_path):
    """Runs a copy of a launcher, in whose repository t5x-like is the script above."""
    shutil.copytree(LAUNCH, tmp_path / "launch")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "t5x-like").write_text(_REPEATS_ITS_CALL)
    (programs / "srun").write_text(_SRUN)
    for program in programs.iterdir():
        program.chmod(0o755)

    def run(place: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [tmp_path / "launch" / place / "train.sh", *arguments],
            env=os.environ | environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
        )

    return run


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.parent.name)
def test_every_place_ends_in_the_same_command_within_sixty_lines(script):
    text = script.read_text()
    assert 't5x-like train --gin_file="${GIN_FILE}" "$@"' in text
    assert len(text.splitlines()) <= 60
    assert os.access(script, os.X_OK)


def test_shellcheck_finds_nothing():
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not shellcheck:
        pytest.skip("shellcheck is not installed")
    checked = subprocess.run([shellcheck, *SCRIPTS], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_one_local_process_gets_the_command_as_it_was_written(launch):
    run = launch("local", "a recipe.gin", "--set=MODEL_DIR=runs/a b")
    assert run.stdout == " of  at  : train --gin_file=a recipe.gin --set=MODEL_DIR=runs/a b\n"


def test_local_processes_are_numbered_and_share_a_coordinator(launch):
    run = launch("local", "recipe.gin", NUM_PROCESSES="3")
    assert run.returncode == 0
    assert sorted(run.stdout.splitlines()) == [
        f"{index} of 3 at localhost : train --gin_file=recipe.gin" for index in range(3)
    ]


def test_when_one_local_process_fails_the_others_stop(launch):
    assert launch("local", "recipe.gin", NUM_PROCESSES="3", FAILS="1").returncode != 0


def test_slurm_lets_jax_find_the_other_processes(launch):
    run = launch("slurm", "recipe.gin", "--gin.MODEL_DIR='/shared/run'")
    assert run.stdout == " of  at  auto: train --gin_file=recipe.gin --gin.MODEL_DIR='/shared/run'\n"


def test_a_kubernetes_job_has_one_pod_for_each_host_and_keeps_the_quotes(launch):
    slice_of_four = {
        "IMAGE": "place/image",
        "HOSTS": "4",
        "ACCELERATOR": "tpu-v5-lite-podslice",
        "TOPOLOGY": "4x4",
    }
    run = launch("gke", "recipe.gin", "--gin.MODEL_DIR='gs://b/r'", **slice_of_four)
    assert "completions: 4\n" in run.stdout
    command = r"exec t5x-like train --gin_file=recipe.gin --gin.MODEL_DIR=\\'gs://b/r\\' "
    assert f'command: ["bash", "-c", "{command}"]' in run.stdout


@pytest.mark.parametrize(
    ("place", "needed"),
    [
        ("local", "usage: launch/local/train.sh"),
        ("slurm", "usage: sbatch"),
        ("gke", "usage: IMAGE="),
        ("tpu_vm", "TPU_NAME"),
    ],
)
def test_what_is_missing_is_said(launch, place, needed):
    run = launch(place)
    assert run.returncode != 0
    assert needed in run.stderr
