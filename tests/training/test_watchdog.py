"""A run that hangs says where, and ends with its own exit code."""

import subprocess
import sys
import textwrap

import pytest

from t5x_like.training.watchdog import HUNG, Watchdog

PROGRAM = textwrap.dedent(
    """
    import time
    import jax, numpy as np
    from t5x_like.partitioning.mesh import MeshConfig
    from t5x_like.training.loop import Loop
    from t5x_like.training.watchdog import EndIfHung, Watchdog
    from tests.training.test_hooks import Counting, step

    class Stuck(Counting):
        def __iter__(self):
            for batch in super().__iter__():
                if self.position == {stuck_at}:
                    wait_for_a_dead_file_system()
                yield batch

        def worker_states(self):
            return ["process 7, a worker of the loader, has worked for 9 s"]

    def wait_for_a_dead_file_system():
        time.sleep(3600)

    watchdog = Watchdog(factor=3, least_seconds=1)
    loop = Loop(step, Stuck(), mesh=MeshConfig().build(jax.devices()[:1]), total_steps=30, hooks=[EndIfHung(watchdog)])
    loop.run({{"step": np.int32(0), "sum": np.int32(0)}})
    print("finished")
    """
)


def run(stuck_at: int) -> "subprocess.CompletedProcess[str]":
    program = PROGRAM.format(stuck_at=stuck_at)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


def test_a_run_without_data_prints_all_stacks_and_ends():
    done = run(stuck_at=20)
    assert done.returncode == HUNG
    assert "t5x-like: no progress for 1 s after step 19, while training; the median step took" in done.stderr
    assert "process 7, a worker of the loader, has worked for 9 s\n" in done.stderr
    assert "in wait_for_a_dead_file_system" in done.stderr, "the thread that reads data"
    assert "in _do_steps" in done.stderr, "the thread that trains"


@pytest.mark.slow
def test_a_run_that_makes_progress_is_left_alone():
    assert run(stuck_at=1000).stdout == "finished\n"


def test_limits_must_be_positive():
    with pytest.raises(ValueError, match="least_seconds is 0; give a number above 0, or watchdog = None"):
        Watchdog(least_seconds=0)
