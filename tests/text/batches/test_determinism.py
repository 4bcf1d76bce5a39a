"""The same global batches with any number of hosts and workers, from wherever they are gone on with."""

import dataclasses
import itertools
import json
import os
import random
import signal
import tempfile

import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.text.batches.loader import LoaderConfig, build_loader
from t5x_like.text.batches.workers import Workers
from t5x_like.text.cache.shards import unpack
from t5x_like.text.tasks import registry
from t5x_like.text.tasks.mixtures import Mixture

BATCH_SIZE = 8


def config(mixture: str, **changes) -> LoaderConfig:
    settings = {
        "mixture": mixture,
        "batch_size": BATCH_SIZE,
        "inputs_length": 64,
        "targets_length": 32,
        "seed": 3,
    }
    return LoaderConfig(**(settings | changes))


@pytest.fixture
def mixture(make_text_task, make_corpus) -> str:
    tasks = (make_text_task(), make_corpus(), make_text_task(7))
    rates = dict(zip(tasks, (3.0, 2.0, 1.0), strict=True))
    registry.register([Mixture(name=f"hosts_{tasks[0]}", tasks=tasks, rates=rates)])
    return f"hosts_{tasks[0]}"


def global_batches(settings: LoaderConfig, count: int, hosts: int, state=None) -> tuple[list[Batch], list]:
    """Batches of all hosts put together, and the state after each, which all hosts must agree on."""
    loaders = [build_loader(settings, host, hosts) for host in range(hosts)]
    batches, states = [], []
    try:
        for loader in loaders:
            if state is not None:
                loader.restore(state)
        for _ in range(count):
            parts = [next(loader) for loader in loaders]
            batches.append(
                Batch(
                    *(
                        None if stream[0] is None else np.concatenate(stream)
                        for stream in zip(*parts, strict=True)
                    )
                )
            )
            places = [loader.state() for loader in loaders]
            assert all(place == places[0] for place in places)
            states.append(places[0])
    finally:
        for loader in loaders:
            loader.close()
    return batches, states


def assert_equal(left: list[Batch], right: list[Batch]) -> None:
    for one, other in zip(left, right, strict=True):
        for name, mine, theirs in zip(Batch._fields, one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


@pytest.mark.parametrize("pack", [True, False])
def test_hosts_workers_and_kills_change_nothing(mixture: str, pack: bool) -> None:
    settings = config(mixture, pack=pack)
    num_batches = 400 if not pack else 160  # several windows of a thousand examples
    expected, states = global_batches(settings, num_batches, 1)
    chooser = random.Random(0)
    for hosts, workers in [(1, 1), (2, 0), (2, 2), (4, 0), (1, 3)]:
        killed_after = chooser.randrange(num_batches - 20)
        found, _ = global_batches(
            dataclasses.replace(settings, num_workers=workers), 20, hosts, states[killed_after]
        )
        assert_equal(found, expected[killed_after + 1 : killed_after + 21])


def test_a_kill_in_every_place_is_gone_on_with(mixture: str) -> None:
    settings = config(mixture)
    expected, states = global_batches(settings, 60, 1)
    for start in range(0, 59, 7):
        found, _ = global_batches(settings, 1, 1, states[start])
        assert_equal(found, expected[start + 1 : start + 2])


def test_the_state_is_small_and_gone_to_at_once(mixture: str) -> None:
    """A place far ahead costs one window, not all that lies before it."""
    loader = build_loader(config(mixture))
    next(loader)
    state = loader.state()
    state["place"]["window"] = 10**9
    for task in state["place"]["tasks"]:
        state["place"]["tasks"][task] = [10**6, 0]
    loader.restore(state)
    assert next(loader).loss_weights.sum() > 0
    assert loader.state()["place"]["window"] == 10**9


def test_rates_may_change_on_the_way_and_that_is_said(make_text_task, caplog) -> None:
    tasks = (make_text_task(500), make_text_task(500))
    names = [f"before_{tasks[0]}", f"after_{tasks[0]}"]
    for name, rates in zip(names, ((1.0, 1.0), (1.0, 0.0)), strict=True):
        registry.register([Mixture(name=name, tasks=tasks, rates=dict(zip(tasks, rates, strict=True)))])
    settings = config(names[0], pack=False)
    first = build_loader(settings)
    for _ in range(100):
        next(first)
    second = build_loader(dataclasses.replace(settings, mixture=names[1]))
    second.restore(first.state())
    assert "the mixture" in caplog.text
    assert "[0.5, 0.5] before, [1.0, 0.0] now" in caplog.text
    # The thousand examples that were begun are finished as they were planned.
    for _ in range(28):
        np.testing.assert_array_equal(next(first).target_tokens, next(second).target_tokens)
    drawn = {int(task) for _ in range(50) for task in np.unique(next(second).task_ids)}
    assert drawn == {0}


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


def test_workers_end_with_the_loader(mixture: str) -> None:
    loader = build_loader(config(mixture, num_workers=2))
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


def test_a_changed_objective_is_said_and_gone_on_with(make_corpus, caplog) -> None:
    """A place that the new one has no text for is the end of its window."""
    name = make_corpus(30)
    settings = config(name, targets_length=64, pack=False)
    first = build_loader(settings)
    for _ in range(100):
        next(first)
    state = first.state()
    state["place"]["tasks"][name] = [2, 10**6]
    state["data"]["objectives"] = ["SpanCorruption(noise_density=0.5)"]
    second = build_loader(settings)
    second.restore(state)
    assert "objectives: ['SpanCorruption(noise_density=0.5)'] before" in caplog.text
    assert next(second).loss_weights.sum() > 0


def test_other_data_is_refused_with_what_may_have_changed(make_corpus) -> None:
    loader = build_loader(config(make_corpus(30), targets_length=64))
    state = loader.state()
    state["data"]["checksums"] = [1]
    with pytest.raises(
        ValueError, match=r"checksums: \[1\] before, (.|\n)*an earlier version wrote the cache"
    ):
        loader.restore(state)


def test_each_task_keeps_the_windows_that_it_reads(make_corpus) -> None:
    """However many tasks are mixed, none is read again for every thousand examples."""
    names = tuple(make_corpus(400) for _ in range(5))
    registry.register([Mixture(name=f"five_{names[0]}", tasks=names, rates=dict.fromkeys(names, 1.0))])
    sources = build_loader(config(f"five_{names[0]}", targets_length=64))._make.sources
    windows = [source._open(0, 0) for source in sources]  # pyright: ignore[reportAttributeAccessIssue]
    for source, window in zip(sources, windows, strict=True):
        assert source._open(0, 0) is window  # pyright: ignore[reportAttributeAccessIssue]


def test_packing_fills_rows_and_says_how_well(make_text_task) -> None:
    name = make_text_task(300)
    loaders = {pack: build_loader(config(name, pack=pack)) for pack in (True, False)}
    for loader, _ in itertools.product(loaders.values(), range(20)):
        next(loader)
    assert loaders[False].share_filled < 0.4
    assert loaders[True].share_filled > loaders[False].share_filled + 0.2
