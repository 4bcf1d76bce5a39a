"""Worker processes: their errors are reported, and nothing of them remains."""

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.io.worker_pool import WorkerError, WorkerPool, report
from t5x_like.text.cache.shards import parse_index


def pool_of(function: Any, number: int = 2) -> WorkerPool[Any, Any]:
    return WorkerPool(function, number, owner="the build", flag="workers", kept="tasks")


def _rest(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def _die(number: int) -> None:
    os.kill(os.getpid(), 9)


def test_zero_workers_use_this_process() -> None:
    with pool_of(_rest, 0) as pool:
        assert list(pool.as_done([0.0, 0.0])) == list(pool.in_order([0.0, 0.0])) == [(0.0, os.getpid())] * 2


def test_results_come_as_done_or_in_the_order_of_items() -> None:
    work = [1.0, 0.0, 0.01, 0.02, 0.03]
    with pool_of(_rest) as pool:
        assert [item for item, _ in pool.as_done(work)][-1] == 1.0
        assert [item for item, _ in pool.in_order(work)] == work
        assert len({process for _, process in pool.in_order([0.1] * 6)}) == 2


def test_large_items_and_results_do_not_block() -> None:
    """They don't fit into a pipe, so both sides have to read while the other writes."""
    work = [bytes([index]) * 3_000_000 for index in range(8)]
    with pool_of(bytes.upper) as pool:
        assert [result for _, result in pool.in_order(work)] == [each.upper() for each in work]


def test_a_killed_process_is_reported_with_the_flag_to_lower() -> None:
    with (
        pool_of(_die) as pool,
        pytest.raises(ValueError, match=r"lower workers; .* finished tasks"),
    ):
        list(pool.as_done([1, 2]))
    with pool_of(_fails_at_three) as pool:
        results = pool.in_order(itertools.repeat(2))
        next(results)
        pool._processes[1].kill()
        with pytest.raises(ChildProcessError, match=r"worker of the build, was killed by SIGKILL"):
            list(itertools.islice(results, 5000))


def test_closing_in_the_midst_of_work_ends_at_once() -> None:
    started = time.monotonic()
    with pool_of(_rest) as pool:
        results = pool.as_done([0.0, 60.0, 60.0, 60.0])
        assert next(results)[0] == 0.0
    assert time.monotonic() - started < 30
    assert all(process.poll() is not None for process in pool._processes)
    assert not any(thread.is_alive() for thread in pool._threads)


PROGRAM = """
import sys, time
from t5x_like.io.worker_pool import WorkerPool
pool = WorkerPool(time.sleep, 2, owner="the build", flag="workers")
print(*(process.pid for process in pool._processes), flush=True)
if sys.argv[1] == "busy":
    list(pool.in_order([0.0, 60.0, 60.0]))
"""


def _has_ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("what", ["busy", "ends"])
def test_workers_end_with_their_program_however_it_ends(tmp_path: Path, what: str) -> None:
    """Its main module has no guard because it isn't imported again."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        processes = [int(each) for each in running.stdout.readline().split()]
        assert len(processes) == 2
        if what == "busy":
            time.sleep(2)
            assert not any(map(_has_ended, processes))
            running.kill()
        assert running.wait(60) == (-signal.SIGKILL if what == "busy" else 0)
    for _ in range(200):
        if all(map(_has_ended, processes)):
            return
        time.sleep(0.1)
    pytest.fail("workers outlive their program")


def _refuse_to_start() -> None:
    raise KeyError("not today")


def test_errors_before_the_first_item_are_raised_with_it() -> None:
    pool = WorkerPool(abs, 1, owner="the build", flag="workers", prepare=_refuse_to_start)
    with pool, pytest.raises(KeyError, match="not today"):
        next(pool.in_order([1]))


def test_an_error_in_a_worker_is_raised_by_the_pool() -> None:
    workers = pool_of(_fails_at_three, 2)
    results = workers.in_order(range(5))
    assert [next(results)[1] for _ in range(3)] == [0, 1, 4]
    with pytest.raises(KeyError, match="three is too much") as raised:
        next(results)
    assert "in a worker process:\nTraceback" in raised.value.__notes__[0]
    workers.close()


def test_only_our_own_value_errors_keep_their_type() -> None:
    """On the command line they take one line; failures of a library need their traceback."""
    workers = pool_of(parse_index, 1)
    with pytest.raises(ValueError, match="not an index"):
        list(workers.in_order([b"PK\x03\x04"]))
    workers.close()
    workers = pool_of(json.loads, 1)
    with pytest.raises(RuntimeError, match="JSONDecodeError: Expecting value") as raised:
        list(workers.in_order(["x"]))
    assert "in a worker process:\nTraceback" in raised.value.__notes__[0]
    workers.close()


def _fails_at_three(number: int) -> int:
    if number == 3:
        raise KeyError("three is too much")
    return number**2


@dataclasses.dataclass
class Sums:
    """Has arrays that are shared, one of them twice, and one that is too small to be."""

    arrays: list[np.ndarray]

    def __call__(self, number: int) -> tuple[list[float], bool, list[str]]:
        same = self.arrays[0] is self.arrays[-1]
        return (
            [float(array[..., number].sum()) for array in self.arrays],
            same,
            os.listdir(tempfile.gettempdir()),
        )


def test_large_arrays_are_shared_in_an_unnamed_file(tmp_path, monkeypatch) -> None:
    """Nothing remains even if all processes are killed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    bytes_ = np.arange(3_000_001, dtype=np.uint8)
    columns = np.arange(10**6, dtype=np.float64).reshape(-1, 4).T.copy().T  # in Fortran's order
    arrays = [bytes_, columns, np.arange(9), bytes_]
    workers = pool_of(Sums(arrays), 2)
    for number, (sums, same, files) in workers.in_order(range(4)):
        assert sums == [float(array[..., number].sum()) for array in arrays]
        assert same
        assert files == []
    workers.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_workers_ignore_signals_to_stop(number: signal.Signals) -> None:
    """Ctrl-C and schedulers signal every process, and a run that should stop still takes a few steps."""
    workers = pool_of(_fails_at_three, 2)
    results = workers.in_order([0, 1, 2, 4, 5])
    assert next(results)[1] == 0
    for process in workers._processes:
        process.send_signal(number)
    assert [result for _, result in results] == [1, 4, 16, 25]
    workers.close()


def _suppressed(work: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        with contextlib.suppress(WorkerError):
            work()

    return run


def test_the_state_of_each_process_can_be_seen() -> None:
    with WorkerPool(time.sleep, 2, owner="the loader", flag="num_workers") as pool:
        threading.Thread(target=_suppressed(lambda: list(pool.in_order([600.0]))), daemon=True).start()
        deadline = time.monotonic() + 60
        while not any("has worked for" in line for line in pool.describe()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert sum(line.endswith("a worker of the loader, waits for work") for line in pool.describe()) == 1
        pool._processes[0].kill()
        pool._processes[0].wait()
        assert pool.describe()[0].endswith("a worker of the loader, ended with code -9")


def _report_and_double(number: int) -> int:
    report((number, "half done"))
    return 2 * number


@pytest.mark.parametrize("num_workers", [0, 2])
def test_reports_of_a_function_reach_the_pool_before_the_result(num_workers: int) -> None:
    reports: list[tuple[int, str]] = []
    with WorkerPool(
        _report_and_double, num_workers, owner="the test", flag="num_workers", on_report=reports.append
    ) as pool:
        for item, result in pool.as_done(range(5)):
            assert (item, "half done") in reports
            assert result == 2 * item
    assert sorted(reports) == [(index, "half done") for index in range(5)]


def test_reports_without_a_listener_are_ignored() -> None:
    assert _report_and_double(3) == 6
    for num_workers in (0, 1):
        with WorkerPool(_report_and_double, num_workers, owner="the test", flag="num_workers") as pool:
            assert [result for _, result in pool.in_order([1, 2])] == [2, 4]
