"""A save that fails costs no training: it is reported, tried again, and ends the run only after several tries."""

import resource
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.backoff import Backoff
from t5x_like.training.hooks import Hook, RunProgress
from t5x_like.training.loop import Loop
from t5x_like.training.saving import Save
from tests.training.test_hooks import Counting

# Orbax leaves coroutines behind when a write fails.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@jax.jit
def step(state, batch):
    grown = {"weights": state["params"]["weights"] + batch.target_tokens.sum()}
    return {"step": state["step"] + 1, "params": grown}


class FullDisk(Hook):
    """Lets no file grow beyond a kilobyte while these steps are saved."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.checkpoints: Any = None
        self.said: list[str] = []

    def start(self, run: RunProgress) -> None:
        run.say = self.said.append

    def after_step(self, run: RunProgress) -> None:
        if self.checkpoints._finisher:
            self.checkpoints._finisher.join()  # the save of the step before meets the disk as it was then
        limit_file_size(1024 if self.first <= run.step <= self.last else None)


def limit_file_size(size: int | None) -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


@pytest.fixture(autouse=True)
def files_of_any_size():
    yield
    limit_file_size(None)


def train(directory, disk: FullDisk, **settings) -> None:
    numbers = np.random.default_rng(0).normal(size=5000).astype(np.float32)  # nothing to compress
    state = {"step": jnp.int32(0), "params": {"weights": jnp.asarray(numbers)}}
    with Checkpoints(directory, keep=10) as checkpoints:
        disk.checkpoints = checkpoints
        save = Save(checkpoints, 2, backoff=Backoff(first_seconds=0), **settings)
        mesh = MeshConfig().build(jax.devices()[:1])
        Loop(step, Counting(), mesh=mesh, total_steps=9, hooks=[disk, save]).run(state)


def test_training_goes_on_while_the_disk_is_full_and_saves_again_afterwards(tmp_path):
    disk = FullDisk(4, 6)
    train(tmp_path, disk)
    with Checkpoints(tmp_path) as checkpoints:
        saved = checkpoints.all_steps()
        assert {2, 8, 9} <= set(saved)
        assert not {4, 5, 6} & set(saved)
        checkpoints.restore({"step": jnp.int32(0), "params": {"weights": jnp.zeros(5000)}})
    assert not (tmp_path / "4").exists(), "what a failed save wrote is deleted"
    assert disk.said[0].startswith(f"step 4 could not be saved in {tmp_path}: ")
    assert "Training continues; the next try is in 0 s" in disk.said[0]
    assert "saves failed; these steps are saved: 2, " in disk.said[-1]


def test_the_last_step_waits_until_it_is_saved(tmp_path):
    class Repair(FullDisk):
        def start(self, run):
            super().start(run)
            run.say = self.repair

        def repair(self, text: str) -> None:
            self.said.append(text)
            if len(self.said) == 3:
                limit_file_size(None)

    disk = Repair(9, 9)
    train(tmp_path, disk)
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.all_steps() == [2, 4, 6, 8, 9]
    assert disk.said[-1] == "3 saves failed; these steps are saved: 2, 4, 6, 8, 9"


def test_after_several_failures_in_a_row_the_run_ends_and_keeps_what_was_saved(tmp_path):
    with pytest.raises(OSError, match=r"3 saves in a row failed\. step .* steps saved before it: .2."):
        train(tmp_path, FullDisk(4, 9), max_failures=3)
    limit_file_size(None)
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.all_steps() == [2]


def test_waits_double_up_to_a_limit():
    backoff = Backoff(first_seconds=10, longest_seconds=35)
    assert backoff.seconds_left == 0
    assert [backoff.fail() for _ in range(4)] == [10, 20, 35, 35]
    assert 30 < backoff.seconds_left <= 35
    backoff.succeed()
    assert (backoff.num_failures, backoff.seconds_left) == (0, 0)
