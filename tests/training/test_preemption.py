"""Signals ask a run to stop wherever it is; it saves what it has, once, and repeated signals don't hurt."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import jax
import numpy as np
import pytest

from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.hooks import Evaluation, Every, Hook, RunProgress
from t5x_like.training.loop import Loop
from t5x_like.training.preemption import Preemption, StopRequestedError
from tests.training.test_hooks import Counting, step


@pytest.fixture(autouse=True)
def no_signal_is_ignored():
    """Shells start programs in the background with SIGINT ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def train(hooks, loader=None):
    loop = Loop(
        step,
        loader or Counting(),
        mesh=MeshConfig().build(jax.devices()[:1]),
        total_steps=9,
        hooks=hooks,
    )
    return loop.run({"step": np.int32(0), "sum": np.int32(0)})


class SignalAfter(Hook):
    """Sends this process a signal after a step."""

    def __init__(self, number: int, step: int) -> None:
        self.number, self.step = number, step

    def after_step(self, run: RunProgress) -> None:
        if run.step == self.step:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_stops_after_the_next_step_which_is_saved(number):
    saved = []
    finished = train([SignalAfter(number, 3), Every(100, lambda run: saved.append(run.step))])
    assert (finished.step, finished.completed, saved) == (4, False, [4])


def test_more_signals_change_nothing_while_the_run_saves():
    saved = []

    def save(run):
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGINT):
            os.kill(os.getpid(), number)
        time.sleep(0.01)  # handlers run now
        saved.append(run.step)

    train([SignalAfter(signal.SIGTERM, 3), Every(100, save)])
    assert saved == [4]


def test_an_evaluation_is_left_after_the_batch_and_then_the_run_saves():
    class FiveBatches:
        name = "five"

        def measure(self, weights, after_batch):
            for index in range(5):
                measured.append(index)
                if index == 1:
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(0.01)
                after_batch()
            return {"loss": 1.0}

    class Plan:
        average = None

        def weights(self, state):
            return state["sum"]

    measured, saved = [], []
    evaluate = Evaluation(Plan(), [FiveBatches()], [], model=None, model_dir="")
    finished = train(
        [Every(3, evaluate, when_preempted=False), Every(100, lambda run: saved.append(run.step))]
    )
    assert measured == [0, 1]
    assert (finished.step, finished.completed, saved) == (3, False, [3])
    assert finished.last == {}, "a part of an evaluation is no result"


def test_a_run_that_waits_for_data_can_be_stopped():
    class Stuck(Counting):
        def __iter__(self):
            for batch in super().__iter__():
                if self.position == 4:
                    while 1 not in done:
                        time.sleep(0.01)
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(1)
                yield batch

    done, saved = [], []
    began = time.monotonic()
    finished = train(
        [Every(1, lambda run: done.append(run.step)), Every(100, lambda run: saved.append(run.step))], Stuck()
    )
    assert (finished.completed, saved) == (False, [finished.step])
    assert finished.step <= 4
    assert time.monotonic() - began < 30


def test_before_the_first_step_signals_keep_their_meaning():
    before = signal.getsignal(signal.SIGTERM)
    with Preemption() as preemption:
        assert signal.getsignal(signal.SIGTERM) == before
        preemption.listen()
        assert signal.getsignal(signal.SIGTERM) != before
        preemption.check()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(StopRequestedError):
            preemption.check()
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Preemption() as preemption:
            preemption.listen()
            signal.raise_signal(signal.SIGHUP)  # as under nohup when the terminal closes
            assert not preemption.poll()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_third_interrupt_leaves_at_once():
    program = textwrap.dedent(
        """
        import signal
        from t5x_like.training.preemption import Preemption
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with Preemption() as preemption:
            preemption.listen()
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            print("still here", flush=True)
            signal.raise_signal(signal.SIGINT)
            print("never printed", flush=True)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "still here\n"
    assert done.returncode == -signal.SIGINT
