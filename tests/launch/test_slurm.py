"""SLURM itself runs our jobs, on two nodes of this machine: whole runs, saved before a limit, killed, and continued."""

import contextlib
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from t5x_like.cli.main import main
from tests.cli.test_sweep import RECIPE as SWEPT
from tests.integration.programs import losses
from tests.launch.slurm_cluster import NODES, SlurmCluster, slurm_cluster, wait_until
from tests.launch.test_local_runs import RECIPE, environment, finish, start
from tests.references import ROOT

pytestmark = pytest.mark.slow

STEPS = 24
_NO_GPUS = ("--gpus-per-node=0", "--ntasks-per-node=1", "--cpus-per-task=1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Holds the recipes, the compiled programs, logs and every run."""
    path = tmp_path_factory.mktemp("slurm")
    (path / "tiny.gin").write_text(f"{RECIPE}TRAIN_STEPS = {STEPS}\n")
    (path / "swept.gin").write_text(SWEPT)
    return path


@pytest.fixture(scope="module")
def cluster(folder) -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory() as short, slurm_cluster(Path(short)) as running:
        reached_by = {name: running.environment[name] for name in ("PATH", "SLURM_CONF")}
        yield running._replace(environment=environment(folder, **reached_by))


@pytest.fixture(scope="module")
def whole(folder) -> dict[int, float]:
    """Losses of two processes of the local launcher."""
    finish(start(folder, "local", 2))
    return losses(folder / "local")


class Job:
    """A job of two processes, or as many as ``flags`` of sbatch say."""

    def __init__(self, cluster: SlurmCluster, folder: Path, name: str, *recipe: str, flags: tuple[str, ...]):
        self.cluster, self.home, self.log = cluster, folder / name, folder / f"{name}.log"
        self.number = cluster.run(
            *("sbatch", "--parsable", f"--chdir={ROOT}", f"--job-name={name}", f"--output={self.log}"),
            *(*_NO_GPUS, *flags, ROOT / "launch/slurm/train.sh", *recipe),
            *("--model_dir", str(self.home)),
        )

    def reaches(self, step: int) -> None:
        """Wait until the run has done a step."""
        wait_until(lambda: self.said().count(f"step {step}/"), 300)

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def process(self, index: int) -> int:
        """Return the process id of ``t5x-like`` in a task."""
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_text()
                is_run = "t5x-like\0train\0" in command and str(self.home) in command
                if is_run and f"T5X_LIKE_PROCESS_ID={index}\0" in (entry / "environ").read_text():
                    return int(entry.name)
        raise LookupError(index)


@pytest.fixture
def submit(cluster, folder):
    """Submits a job of two nodes."""

    def run(
        name: str, *before: str, flags: tuple[str, ...] = ("--nodes=2",), then: tuple[str, ...] = ()
    ) -> Job:
        return Job(cluster, folder, name, *before, str(folder / "tiny.gin"), *then, flags=flags)

    return run


def test_two_nodes_train_as_two_local_processes(submit, cluster, whole):
    job = submit("two")
    assert cluster.ended(job.number) == "COMPLETED 0:0", job.said()
    assert losses(job.home) == whole


def test_a_preempted_job_saves_goes_back_into_the_queue_and_continues(submit, cluster, whole):
    job = submit("preempted")
    job.reaches(3)
    urgent = ("--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null")
    cluster.run("sbatch", *urgent, "--wrap=true")
    assert cluster.ended(job.number) == "COMPLETED 0:0", job.said()
    assert "DUE TO JOB REQUEUE" in job.said()
    assert job.said().count("as asked; the same command continues from here") == 1, job.said()
    assert losses(job.home) == whole


def test_a_job_saves_before_its_time_limit_and_goes_back_into_the_queue(submit, cluster, whole):
    job = submit("time_limit", then=("--set", "TRAIN_STEPS=1000000"))
    job.reaches(STEPS)
    # Less than the 180 s of --signal are left. SLURM looks every 30 s.
    cluster.run("scontrol", "update", f"JobId={job.number}", "TimeLimit=2")
    wait_until(lambda: "DUE TO JOB REQUEUE" in job.said(), 120)
    cluster.run("scontrol", "update", f"JobId={job.number}", "TimeLimit=60")
    stopped = int(re.search(r"stopped at step (\d+) as asked", job.said())[1])
    wait_until(lambda: f"resumed at step {stopped}," in job.said(), 300)
    job.reaches(stopped + 2)
    cluster.run("scancel", job.number)
    assert cluster.ended(job.number).startswith("CANCELLED"), job.said()
    assert {step: loss for step, loss in losses(job.home).items() if step <= STEPS} == whole


def test_a_killed_process_is_named_and_all_start_again_in_the_same_job(submit, cluster, whole):
    job = submit("killed", "--restarts", "1")
    job.reaches(7)
    os.kill(job.process(1), signal.SIGKILL)
    assert cluster.ended(job.number) == "COMPLETED 0:0", job.said()
    assert f"process 1 of 2 (host {NODES[1]}, pid " in job.said()
    assert "exit code 137: restart 1 of 1, from the last checkpoint" in job.said()
    assert losses(job.home) == whole


def test_scancel_saves_and_the_next_job_of_the_name_continues(submit, cluster, whole):
    job = submit("canceled", "--restarts", "1")
    successor = submit("canceled", flags=("--nodes=2", "--dependency=singleton"))
    job.reaches(3)
    cluster.run("scancel", job.number)
    assert cluster.ended(job.number).startswith("CANCELLED"), job.said()
    assert cluster.ended(successor.number) == "COMPLETED 0:0", job.said()
    assert job.said().count("as asked; the same command continues from here") == 1, job.said()
    assert "restart 1" not in job.said()
    assert losses(job.home) == whole


def test_after_a_node_has_failed_the_run_continues_on_the_one_that_is_left(submit, cluster, whole):
    # Of a range, SLURM takes the smallest number of nodes if each has one task. It keeps the number of tasks.
    job = submit("one_is_left", flags=("--nodes=1-2", "--ntasks-per-node=2"))
    job.reaches(7)
    cluster.fail_node(NODES[1])
    try:
        wait_until(lambda: " PD " in cluster.jobs(), 120)
        cluster.run("scontrol", "update", f"JobId={job.number}", "NumTasks=2")
        assert cluster.ended(job.number) == "COMPLETED 0:0", job.said()
    finally:
        cluster.start_node(NODES[1])
    assert "parameters on 4 cpu devices" in job.said()
    assert "parameters on 2 cpu devices" in job.said()
    result = losses(job.home)
    assert result.keys() == whole.keys()
    np.testing.assert_allclose(list(result.values()), list(whole.values()), rtol=1e-5)


def test_a_mistake_ends_the_job_without_a_restart(submit, cluster):
    job = submit("mistake", "--restarts", "3", then=("--gin.mesh.MeshConfig.fsdp=3",))
    assert cluster.ended(job.number) == "FAILED 2:0", job.said()
    assert "restart 1" not in job.said()


def test_each_task_of_an_array_trains_a_run_of_a_sweep(cluster, folder, capsys):
    output = folder / "sweep"
    sweep = (str(folder / "swept.gin"), "--over", "LEARNING_RATE=0.001,0.1", "--output", str(output))
    job = cluster.run(
        *("sbatch", "--parsable", f"--chdir={ROOT}", "--array=0-1", f"--output={folder}/%x-%a.log"),
        *("--gpus-per-node=0", "--cpus-per-task=1", ROOT / "launch/slurm/sweep.sh", *sweep),
    )
    assert cluster.ended(job) == "COMPLETED 0:0"
    assert not (output / "results.json").exists()
    assert main(["sweep", *sweep]) == 0
    assert "2 runs, 2 finished before" in capsys.readouterr().out
    assert (output / "results.json").exists()
