"""Worker processes that make batches: their errors are reported, and none of them outlives the loader."""

import itertools

import pytest

from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig


def config(mixture: str, **changes) -> LoaderConfig:
    return LoaderConfig(mixture=mixture, batch_size=8, inputs_length=64, targets_length=32, **changes)


def test_workers_end_with_the_loader(make_text_task) -> None:
    loader = build_loader(config(make_text_task(), num_workers=2))
    next(loader)
    assert loader._workers is not None
    processes = loader._workers._processes
    assert all(process.poll() is None for process in processes)
    loader.close()
    assert all(process.poll() is not None for process in processes)


def test_a_killed_worker_is_reported(make_text_task) -> None:
    loader = build_loader(config(make_text_task(), num_workers=2))
    next(loader)
    assert loader._workers is not None
    for process in loader._workers._processes:
        process.kill()
    with pytest.raises(ValueError, match=r"worker of the loader, was killed by SIGKILL.*lower num_workers"):
        list(itertools.islice(loader, 2000))
    loader.close()


def test_workers_end_where_the_only_pass_does(make_text_task) -> None:
    loader = build_loader(config(make_text_task(20), num_workers=1, repeat=False))
    next(loader)
    assert loader._workers is not None
    (process,) = loader._workers._processes
    assert sum(1 for _ in loader) < 20
    assert process.poll() is not None
