"""kill -9 at any moment of saving: some step restores to the bit, and the run goes on in the same folder."""

import subprocess
import sys
from pathlib import Path

import pytest


def _kill_again_and_again(directory, *, kills, seed):
    script = Path(__file__).with_name("killed_run.py")
    run = subprocess.run(
        [sys.executable, str(script), str(directory), str(kills), str(seed)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return [int(step) for step in run.stdout.split()]


def test_a_killed_run_restores_to_the_bit_and_goes_on(tmp_path):
    reached = _kill_again_and_again(tmp_path, kills=4, seed=0)
    assert len(reached) == 5
    assert reached == sorted(reached)
    assert reached[-1] > 0


@pytest.mark.slow
def test_many_kills(tmp_path):
    reached = _kill_again_and_again(tmp_path, kills=60, seed=1)
    assert reached == sorted(reached)
    assert reached[-1] > 0
