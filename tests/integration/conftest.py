"""One folder of tiny data for all whole runs: a process registers a task once."""

from pathlib import Path

import pytest

from tests.integration import tiny_run


@pytest.fixture(scope="session")
def directory(tmp_path_factory) -> Path:
    """Holds the data, and every run in a folder of its own."""
    path = tmp_path_factory.mktemp("runs")
    tiny_run.write_data(path)
    return path
