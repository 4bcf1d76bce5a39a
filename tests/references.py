"""Where tests find the repository, its reference values, and the larger sets that may lie beside it."""

import os
import socket
from pathlib import Path

import numpy as np

from benchmarks.references.xla_flags import xla_flags

__all__ = ["FIXTURES", "GOLDEN", "ROOT", "SHARED", "free_port", "read_arrays", "references", "xla_flags"]

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
FIXTURES = ROOT / "tests/fixtures"


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def references() -> Path:
    """The folder of reference inputs and outputs: the larger set where there is one, else the repository's own.

    ``T5X_LIKE_REFERENCES`` names another folder of the same layout; ``tests/fixtures`` tests what a clone alone tests.
    """
    named = os.environ.get("T5X_LIKE_REFERENCES")
    if named:
        return (ROOT / named).resolve()
    larger = SHARED / "golden"
    return larger if larger.is_dir() else FIXTURES


GOLDEN = references()


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an ``.npz`` file, which is closed."""
    with np.load(path) as arrays:
        return dict(arrays)
