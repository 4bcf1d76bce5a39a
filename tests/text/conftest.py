"""A small real SentencePiece model, from seqio's own test data."""

import importlib.util
from pathlib import Path

import pytest

from t5x_like.text.seqio_bridge import registration


@pytest.fixture(scope="session")
def pieces_path() -> Path:
    spec = importlib.util.find_spec("seqio")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "test_data" / "sentencepiece" / "sentencepiece.model"


@pytest.fixture(autouse=True, scope="session")
def seqio_is_connected() -> None:
    """Connect seqio's registry, as runs do."""
    registration.connect()
