"""A working directory with gin files in it, and the bakery that they configure."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # gin files import the bakery by its name, as a user's would

import bakery

from t5x_like.configuration_names import trust_module
from t5x_like.gin_config.configuration import Configuration, load

trust_module("bakery")  # as --module bakery


@pytest.fixture
def load_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Configuration]:
    """Writes ``run.gin`` (other files by keyword) into an empty folder and builds a Bakery from it."""
    monkeypatch.chdir(tmp_path)

    def load_files(text: str, *overrides: str, **files: str) -> Configuration:
        for name, content in {"run": text, **files}.items():
            (tmp_path / f"{name}.gin").write_text(content)
        return load(["run.gin"], overrides, roots=[bakery.Bakery])

    return load_files
