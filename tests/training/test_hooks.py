"""Hooks run when they are due, in their order, and can end a run; chosen steps are profiled."""

import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.hooks import Every, Hook, Profile, RunProgress, peak_memory
from t5x_like.training.loop import Loop


class Counting:
    """A loader over 1, 2, 3 …"""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self):
        while True:
            self.position += 1
            yield Batch(target_tokens=np.full((1, 1), self.position, np.int32))

    def state(self):
        return {"position": self.position}


class StopAt(Hook):
    """Ends the run at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def after_step(self, run: RunProgress) -> None:
        if run.step == self.step:
            run.stop("enough")


@jax.jit
def step(state, batch):
    return {"step": state["step"] + 1, "sum": state["sum"] + batch.target_tokens.sum()}


def run(hooks, *, total_steps=7, start_step=0, step=step):
    state = {"step": np.int32(start_step), "sum": np.int32(0)}
    loop = Loop(
        step, Counting(), mesh=MeshConfig().build(jax.devices()[:1]), total_steps=total_steps, hooks=hooks
    )
    return loop.run(state, start_step)


def test_a_hook_is_called_at_its_interval_and_at_the_last_step():
    seen = []
    finished = run([Every(3, lambda run: seen.append((run.step, int(run.state["sum"]), run.loader_state)))])
    assert seen == [(3, 6, {"position": 3}), (6, 21, {"position": 6}), (7, 28, {"position": 7})]
    assert finished == (7, True, {}, None, False)


def test_other_processes_learn_what_the_loop_begins(monkeypatch):
    begun = []
    monkeypatch.setattr("t5x_like.training.loop.report_activity", begun.append)
    run([], total_steps=2)
    assert begun == ["preparing the first batch", "at step 1", "reading data of step 2", "at step 2"]


def test_an_interval_of_zero_is_the_last_step_only():
    seen = []
    run([Every(0, lambda run: seen.append(run.step))])
    assert seen == [7]


def test_a_hook_that_stops_the_run_lets_those_before_and_after_it_finish_once():
    seen = []
    finished = run(
        [
            Every(2, lambda run: seen.append(("before", run.step))),
            StopAt(5),
            Every(3, lambda run: seen.append(("after", run.step))),
        ]
    )
    assert seen == [("before", 2), ("after", 3), ("before", 4), ("before", 5), ("after", 5)]
    assert finished == (5, True, {}, "enough", False)


def test_what_is_due_is_done_once_at_the_step_that_a_hook_stops():
    seen = []
    run([Every(1, lambda run: seen.append(run.step)), StopAt(2)])
    assert seen == [1, 2]


def test_a_hook_may_change_the_state_and_log():
    def reset(run: RunProgress) -> None:
        run.log("train", {"sum": int(run.state["sum"])})
        run.state = run.state | {"sum": np.int32(0)}

    finished = run([Every(2, reset)], total_steps=4)
    assert finished.last == {"train": {"step": 4, "split": "train", "sum": 7}}


def test_a_pause_is_logged_with_its_activity_and_is_no_training_time():
    lines = []

    def evaluate(run: RunProgress) -> None:
        with run.paused("evaluating"):
            time.sleep(0.3)

    run([Every(2, lambda run: lines.append(run.timer.rates(1.0))), Every(4, evaluate)], total_steps=8)
    assert ["pause_seconds/evaluating" in line for line in lines] == [False, False, True, False]
    assert lines[2]["pause_seconds/evaluating"] >= 0.3
    assert 2 / lines[2]["steps_per_second"] < 0.3


def test_steps_that_are_still_computed_when_a_pause_begins_are_training_time():
    @jax.jit
    def slow_step(state, batch):
        square = jax.random.normal(jax.random.key(state["step"]), (300, 300))
        product = jax.lax.fori_loop(0, 50, lambda _, each: each @ square / 20, square)
        return {"step": state["step"] + 1, "sum": state["sum"] + (product.sum() > 0)}

    lines = []

    def evaluate(run: RunProgress) -> None:
        with run.paused("evaluating"):
            jax.block_until_ready(run.state)

    run([Every(1, evaluate), Every(6, lambda run: lines.append(run.timer.rates(1.0)))], step=slow_step)
    assert lines[0]["pause_seconds/evaluating"] < 0.5 / lines[0]["steps_per_second"]


def test_peak_memory_is_that_of_devices_that_count_it():
    gpu = SimpleNamespace(memory_stats=lambda: {"peak_bytes_in_use": 3 * 2**29})
    cpu = SimpleNamespace(memory_stats=lambda: None)
    assert (peak_memory(gpu), peak_memory(cpu)) == ({"device_peak_gib": 1.5}, {})


@pytest.mark.parametrize("stop", [99, 3])
def test_the_chosen_steps_are_recorded_for_tensorboard(tmp_path, stop):
    recorded = {}

    def look(run: RunProgress) -> None:
        recorded[run.step] = bool(list((tmp_path / "profile").rglob("*.xplane.pb")))

    run([Profile(str(tmp_path / "profile"), (2, 5)), StopAt(stop), Every(1, look)])
    assert recorded[min(stop, 5)], "also when the run ends before the last chosen step"
    assert not any(result for number, result in recorded.items() if number < min(stop, 5))


def test_without_steps_nothing_is_recorded(tmp_path):
    run([Profile(str(tmp_path / "profile"), None)], total_steps=2)
    assert not (tmp_path / "profile").exists()
