"""Real processes of one run: one of them dies or hangs, and the others name it and end."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from t5x_like.partitioning.process_watch import LOST_PROCESS
from tests.references import free_port, xla_flags

_CHILD = textwrap.dedent("""
    import sys
    import time

    from t5x_like.partitioning.process_watch import READING_DATA
    from t5x_like.partitioning.processes import end_if_one_of_several, initialize_processes, report_activity

    initialize_processes()
    index, fault = int(sys.argv[1]), sys.argv[2]
    print("connected", flush=True)
    for step in range(1000):
        report_activity(f"{READING_DATA} of step {step}")
        if step == 5 and index == 1:
            if fault == "user error":
                end_if_one_of_several(2)
            if fault == "bug":
                raise RuntimeError("a bug")
            if fault == "stuck":
                time.sleep(1000)
        report_activity(f"at step {step}")
        time.sleep(0.2)
""")


def ends_of(fault: str, victim: int = 1, count: int = 2) -> list[tuple[int, str, int]]:
    """Return each process's exit code, what it wrote, and its pid."""
    shared = {
        "XLA_FLAGS": xla_flags(),
        "T5X_LIKE_COORDINATOR": f"localhost:{free_port()}",
        "T5X_LIKE_NUM_PROCESSES": str(count),
        "T5X_LIKE_HEARTBEAT_TIMEOUT_SECONDS": "6",
    }
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(index), fault],
            env=os.environ | shared | {"T5X_LIKE_PROCESS_ID": str(index)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(count)
    ]
    first_lines = [child.stdout.readline() for child in children]
    assert first_lines == ["connected\n"] * count, [child.communicate() for child in children]
    if isinstance(number := getattr(signal, fault, None), signal.Signals):
        children[victim].send_signal(number)
    survivors = [child for index, child in enumerate(children) if (index, fault) != (victim, "SIGSTOP")]
    said = {child: child.communicate(timeout=60)[0] for child in survivors}
    for child in children:
        if child not in said:
            child.kill()
            said[child] = child.communicate()[0]
    return [(child.returncode, said[child], child.pid) for child in children]


@pytest.mark.slow
def test_a_process_that_is_stopped_is_named_and_the_other_ends():
    (code, said, _), (_, _, stopped) = ends_of("SIGSTOP")
    assert code == LOST_PROCESS
    assert "t5x-like: process 1 of 2 (host " in said
    assert f", pid {stopped}) gave no sign for " in said
    assert "the same command continues it from its last checkpoint" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_a_process_that_is_killed_is_named_once():
    (code, said, _), (_, _, killed), (third_code, third_said, _) = ends_of("SIGKILL", count=3)
    assert (code, third_code) == (LOST_PROCESS, LOST_PROCESS)
    assert f", pid {killed}) gave no sign for " in said
    assert third_said == ""


@pytest.mark.slow
def test_when_process_0_is_stopped_process_1_names_it():
    (_, _, stopped), (code, said, _) = ends_of("SIGSTOP", victim=0)
    assert code == LOST_PROCESS
    assert f", pid {stopped}) gave no sign for " in said


@pytest.mark.slow
def test_when_process_0_is_killed_jax_aborts_the_others():
    _, (code, said, _) = ends_of("SIGKILL", victim=0)
    assert code == -signal.SIGABRT
    assert "the JAX distributed service detected fatal errors" in said


@pytest.mark.slow
def test_a_process_that_is_stuck_in_its_data_is_named_and_ends_too():
    (code, said, _), (stuck_code, stuck_said, stuck) = ends_of("stuck")
    assert f", pid {stuck}) has kept the others waiting for " in said
    assert "reading data of step 5" in said
    assert (code, stuck_code, stuck_said) == (LOST_PROCESS, LOST_PROCESS, "")


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "exit_code"), [("user error", 2), ("bug", 1)])
def test_a_process_that_fails_is_named_with_its_exit_code(fault, exit_code):
    (code, said, _), (failed_code, failed_said, failed) = ends_of(fault)
    assert f", pid {failed}) ended with exit code {exit_code}; " in said
    assert (code, failed_code) == (2 if fault == "user error" else LOST_PROCESS, exit_code)
    assert ("RuntimeError: a bug" in failed_said) == (fault == "bug")
