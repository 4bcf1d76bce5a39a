"""Benchmarks registered for one module's tests, in seqio's small vocabulary, and forgotten after them."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from t5x_like.text import registry
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.seqio_bridge import registration


def forget_benchmarks() -> None:
    """Leave both registries as they were before any benchmark was used."""
    seqio = registration.export_to_seqio() if importlib.util.find_spec("seqio") else None
    for name in catalogue.all_names():
        if registry._tasks.pop(name, None) is not None and seqio:
            seqio.TaskRegistry.remove(name)
        if registry._mixtures.pop(name, None) is not None and seqio:
            seqio.MixtureRegistry.remove(name)


@pytest.fixture(scope="module")
def registered(pieces_path: Path) -> Iterator[None]:
    """All benchmarks, in the vocabulary of seqio's tests."""
    forget_benchmarks()
    registry.register(catalogue.benchmark_tasks(vocabulary=str(pieces_path)))
    registration.export_to_seqio()
    yield
    forget_benchmarks()
