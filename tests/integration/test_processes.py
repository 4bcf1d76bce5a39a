"""Several processes train as one."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from t5x_like.io.files import read_jsonl
from tests.integration.programs import finish, losses, start, start_several
from tests.references import free_port, xla_flags

STEPS = 6


def train_both_ways(directory, count, mesh):
    """Returns the directory of the run of several processes, after a run of one with as many devices."""
    name = "_".join([str(count), *mesh])
    for process in start_several(directory / name, STEPS, count, mesh=mesh):
        finish(process)
    alone = directory / f"alone_{name}"
    finish(start(alone, STEPS, num_devices=count, mesh=mesh))
    several, one = losses(directory / name), losses(alone)
    assert several.keys() == one.keys() == set(range(1, STEPS + 1))
    np.testing.assert_allclose(list(several.values()), list(one.values()), rtol=1e-5)
    return directory / name


def test_two_processes_give_the_losses_of_one(directory):
    home = train_both_ways(directory, 2, [])
    assert (home / str(STEPS)).is_dir(), "they saved together"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "mesh"),
    [
        (2, ["data=1", "fsdp=2"]),
        (2, ["data=1", "model=2"]),
        (4, ["data=2", "fsdp=2"]),
        (4, ["data=1", "fsdp=4"]),
        (4, ["data=1", "fsdp=2", "model=2"]),
        (4, ["data=1", "model=4"]),
    ],
)
def test_weights_may_be_split_over_processes(directory, count, mesh):
    home = train_both_ways(directory, count, mesh)
    arrays = home / str(STEPS) / "state"
    sizes = [
        sum(file.stat().st_size for file in (arrays / f"ocdbt.process_{index}").rglob("*"))
        for index in range(count)
    ]
    assert min(sizes) > sum(sizes) / count / 2, f"every process writes its part: {sizes}"


@pytest.mark.slow
def test_processes_write_one_log_and_one_evaluation(directory):
    home = train_both_ways(directory, 2, ["fsdp=2", "evaluate"])
    lines = [(line["step"], line["split"]) for line in read_jsonl(home / "metrics.jsonl")]
    assert sorted(set(lines)) == sorted(lines)
    assert (STEPS, "evaluation/capitals") in lines
    [evaluation] = (home / "evaluations").iterdir()
    actual, alone = (
        list(read_jsonl(folder / "evaluations" / evaluation.name / "capitals" / "predictions.jsonl"))
        for folder in (home, directory / "alone_2_fsdp=2_evaluate")
    )
    assert len({row["number"] for row in actual}) == len(actual) == len(alone) > 0
    assert [row["prediction"] for row in actual] == [row["prediction"] for row in alone]


@pytest.mark.slow
def test_a_run_continues_with_another_number_of_processes(directory):
    def train(name, steps, count):
        for process in start_several(directory / name, steps, count, mesh=["fsdp=2"]):
            finish(process)
        return losses(directory / name)

    whole = train("uninterrupted_pair", STEPS, 2)
    for count in (2, 4):
        train(f"then_{count}", STEPS // 2, 2)
        resumed = train(f"then_{count}", STEPS, count)
        assert resumed.keys() == whole.keys()
        if count == 2:
            assert resumed == whole, "to the bit"
        np.testing.assert_allclose(list(resumed.values()), list(whole.values()), rtol=1e-5)


STOPPED_IN_EVALUATION = """
import sys, time
from pathlib import Path
import jax
from t5x_like.partitioning.processes import initialize_processes
from t5x_like.training.hooks import Hook
from t5x_like.training.preemption import StopRequestedError
from tests.integration import tiny_run

initialize_processes()
home = Path(sys.argv[1])

class LongEvaluation(Hook):
    def after_step(self, run):
        if run.step != 4 or run.is_last:
            return
        (home / f"evaluating_{jax.process_index()}").touch()
        try:
            for batch in range(2000):
                time.sleep(0.05)
                run.continue_unless_asked_to_stop()
        except StopRequestedError:
            (home / f"left_{jax.process_index()}").write_text(str(batch))
            run.preempt()

tiny_run.run(home, model_dir=str(home / "stopped"), total_steps=50, hooks=(LongEvaluation(),))
"""


@pytest.mark.slow
def test_a_signal_to_one_process_ends_the_evaluation_of_all_after_the_same_batch(directory):
    environment = os.environ | {
        "T5X_LIKE_COORDINATOR": f"localhost:{free_port()}",
        "T5X_LIKE_NUM_PROCESSES": "2",
        "XLA_FLAGS": xla_flags(1),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", STOPPED_IN_EVALUATION, str(directory)],
            env=environment | {"T5X_LIKE_PROCESS_ID": str(index)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    deadline = time.monotonic() + 120
    while not all((directory / f"evaluating_{index}").exists() for index in range(2)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    processes[1].send_signal(signal.SIGUSR1)
    for process in processes:
        finish(process)
    assert (directory / "left_0").read_text() == (directory / "left_1").read_text()
    assert (directory / "stopped" / "4").is_dir(), "what it has is saved"
