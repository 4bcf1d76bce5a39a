"""A small real SentencePiece model, from seqio's own test data."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def pieces_path() -> Path:
    spec = importlib.util.find_spec("seqio")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "test_data" / "sentencepiece" / "sentencepiece.model"
