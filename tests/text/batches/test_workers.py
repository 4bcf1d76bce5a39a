"""Processes that make batches: what goes wrong in them is told, and nothing of them is left."""

import dataclasses
import itertools
import json
import os
import signal
import tempfile

import numpy as np
import pytest

from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.workers import Workers
from t5x_like.text.cache.shards import unpack


def config(mixture: str, **changes) -> LoaderConfig:
    return LoaderConfig(mixture=mixture, batch_size=8, inputs_length=64, targets_length=32, **changes)


def test_an_error_in_a_worker_is_the_loaders() -> None:
    workers = Workers(_fails_at_three, 2)
    results = workers.map(range(5))
    assert [next(results)[1] for _ in range(3)] == [0, 1, 4]
    with pytest.raises(KeyError, match="three is too much") as raised:
        next(results)
    assert "in a worker of the loader:\nTraceback" in raised.value.__notes__[0]
    workers.close()


def test_only_our_own_value_errors_come_from_workers_as_such() -> None:
    """The command line says them in one line, without the traceback that a failure of a library needs."""
    workers = Workers(unpack, 1)
    with pytest.raises(ValueError, match="not an index"):
        list(workers.map([b"PK\x03\x04"]))
    workers.close()
    workers = Workers(json.loads, 1)
    with pytest.raises(RuntimeError, match="JSONDecodeError: Expecting value") as raised:
        list(workers.map(["x"]))
    assert "in a worker of the loader:\nTraceback" in raised.value.__notes__[0]
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


def test_large_arrays_are_shared_in_a_file_that_has_no_name(tmp_path, monkeypatch) -> None:
    """So that nothing stays behind, be it that all processes are killed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    bytes_ = np.arange(3_000_001, dtype=np.uint8)
    columns = np.arange(10**6, dtype=np.float64).reshape(-1, 4).T.copy().T  # in Fortran's order
    arrays = [bytes_, columns, np.arange(9), bytes_]
    workers = Workers(Sums(arrays), 2)
    for number, (sums, same, files) in workers.map(range(4)):
        assert sums == [float(array[..., number].sum()) for array in arrays]
        assert same
        assert files == []
    workers.close()


def test_workers_end_with_the_loader(make_text_task) -> None:
    loader = build_loader(config(make_text_task(), num_workers=2))
    next(loader)
    assert loader._workers is not None
    processes = loader._workers._processes
    assert all(process.poll() is None for process in processes)
    loader.close()
    assert all(process.poll() is not None for process in processes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_leave_it_to_the_run_to_stop(number: signal.Signals) -> None:
    """Ctrl-C and schedulers signal every process, and a run that is asked to stop still takes a few steps."""
    workers = Workers(_fails_at_three, 2)
    results = workers.map([0, 1, 2, 4, 5])
    assert next(results)[1] == 0
    for process in workers._processes:
        process.send_signal(number)
    assert [result for _, result in results] == [1, 4, 16, 25]
    workers.close()


def test_a_killed_worker_is_told_of() -> None:
    workers = Workers(_fails_at_three, 2)
    results = workers.map(itertools.repeat(2))
    next(results)
    workers._processes[1].kill()
    with pytest.raises(ChildProcessError, match=r"worker of the loader, was killed by SIGKILL.*num_workers"):
        list(itertools.islice(results, 9))
    workers.close()


def test_workers_end_where_the_only_pass_does(make_text_task) -> None:
    loader = build_loader(config(make_text_task(20), num_workers=1, repeat=False))
    next(loader)
    assert loader._workers is not None
    (process,) = loader._workers._processes
    assert sum(1 for _ in loader) < 20
    assert process.poll() is not None
