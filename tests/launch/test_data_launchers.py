"""The scripts that start Ray and one command, with programs that stand for Ray and SLURM."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.launch import stand_ins
from tests.references import ROOT

BUILD = ["t5x-like", "corpus", "build", "--input", "crawl/*.gz"]

# Nodes are ready at once and last until they are ended. The second call gives up first, as a node on a busy machine.
RAY = """#!/usr/bin/env bash
echo "$*" >>"${CALLS}"
if [[ $1 == symmetric-run ]]; then
  while [[ $1 != -- ]]; do shift; done
  [[ ${SLURM_PROCID} == 0 ]] && exec "${@:2}"
  exit 0
fi
(($(wc -l <"${CALLS}") == 2)) && exit 1
echo "This command will now block forever"
exec sleep 60
"""
COMMAND = """#!/usr/bin/env bash
printf '%s|' "$@"
exit "${STATUS:-0}"
"""
SRUN = stand_ins.SRUN.replace("SLURM_NTASKS", "SLURM_JOB_NUM_NODES")


@pytest.fixture
def launch(tmp_path):
    """Runs a launcher with the stand-ins."""
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    for name, content in {
        "ray": RAY,
        "t5x-like": COMMAND,
        "srun": SRUN,
        "scontrol": stand_ins.SCONTROL,
    }.items():
        (programs / name).write_text(content)
        (programs / name).chmod(0o755)

    def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        own = {"VENV": str(tmp_path / "venv"), "CALLS": str(tmp_path / "calls"), "PORT": "20000"}
        return subprocess.run(
            [ROOT / "launch/data" / script, *arguments],
            env=os.environ | own | environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def test_nodes_of_this_machine_get_the_command_and_end_with_it(launch, tmp_path):
    run = launch("ray.sh", "--nodes", "2", *BUILD, STATUS="2")
    assert run.returncode == 2
    assert run.stdout == "corpus|build|--input|crawl/*.gz|--runner|ray|--ray_address|127.0.0.1:20000|"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [("--head" in call, call.split()[-2:]) for call in calls] == [
        (True, ["--include-dashboard", "false"]),
        (False, ["--num-cpus", "1"]),  # gives up, and is started again
        (False, ["--num-cpus", "1"]),
        (False, ["--num-cpus", "1"]),
    ]
    folder = Path(calls[0].split()[calls[0].split().index("--temp-dir") + 1]).parent
    assert not folder.exists()


def test_slurm_starts_ray_on_every_node_and_the_command_once(launch, tmp_path):
    job = {"SLURM_JOB_ID": "5001", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "node7,node9"}
    run = launch("slurm.sh", *BUILD, **job)
    assert run.stdout == "corpus|build|--input|crawl/*.gz|--runner|ray|--ray_address|node7:25001|"
    starts = [f"symmetric-run --address node7:25001 --min-nodes 2 -- {' '.join(BUILD)}"] * 2
    assert [
        call.partition(" --runner")[0] for call in (tmp_path / "calls").read_text().splitlines()
    ] == starts


@pytest.mark.parametrize(
    ("script", "arguments"),
    [("ray.sh", []), ("ray.sh", ["--nodes", "0", "t5x-like"]), ("slurm.sh", ["t5x-like"])],
)
def test_what_is_missing_is_said(launch, script, arguments):
    run = launch(script, *arguments)
    assert run.returncode == 2
    assert f"launch/data/{script} " in run.stderr
    assert "usage: " in run.stderr


def test_without_ray_the_extra_is_named(launch, tmp_path):
    run = launch("ray.sh", "--nodes", "1", *BUILD, VENV=str(tmp_path / "elsewhere"), PATH="/usr/bin:/bin")
    assert run.returncode == 2
    assert "pip install 't5x-like[ray]'" in run.stderr
