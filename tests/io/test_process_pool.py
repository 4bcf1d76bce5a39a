"""Work handed to other processes."""

import os
import subprocess
import sys
import time

import pytest

from t5x_like.io.process_pool import as_done, in_order, start_workers


def _rest(seconds):
    time.sleep(seconds)
    return os.getpid()


def _refuse(number):
    raise ValueError(f"{number} is refused")


def _die(number):
    os.kill(os.getpid(), 9)


def done(function, work, number=2):
    with start_workers(number, flag="--workers", kept="tasks") as workers:
        return list(as_done(function, work, workers))


def test_one_process_is_this_one():
    assert done(_rest, [0.0, 0.0], number=1) == [(0.0, os.getpid())] * 2
    assert list(in_order(_rest, [0.0], num_processes=1)) == [os.getpid()]


def test_what_is_done_first_comes_first_and_what_is_given_first_where_order_counts():
    work = [1.0, 0.0, 0.01, 0.02, 0.03]
    assert [given for given, _ in done(_rest, work)][-1] == 1.0
    assert len(list(in_order(_rest, work, num_processes=2))) == 5


def test_a_mistake_comes_back_as_it_was_told():
    with pytest.raises(ValueError, match=r"^1 is refused$"):
        done(_refuse, [1])
    with pytest.raises(ValueError, match=r"^1 is refused$"):
        list(in_order(_refuse, [1], num_processes=2))


def test_a_killed_process_is_told_with_the_flag_to_turn():
    with pytest.raises(ValueError, match="lower --workers: finished tasks are kept"):
        done(_die, [1, 2])


def test_a_program_that_its_workers_would_run_again_is_told_what_it_needs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from t5x_like.io.process_pool import as_done, start_workers\n"
        "with start_workers(2, flag='--workers', kept='tasks') as workers:\n"
        "    list(as_done(abs, [1], workers))\n"
    )
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert ended.returncode == 1
    assert 'needs `if __name__ == "__main__":` around what it does' in ended.stderr
