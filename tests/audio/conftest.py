"""Audio of a second or less, made from formulas."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

Write = Callable[..., Path]


@pytest.fixture
def tone() -> np.ndarray:
    """A second of 440 Hz at half of full scale."""
    return sine(440)


@pytest.fixture
def write(tmp_path) -> Write:
    def written(name: str, samples: np.ndarray, rate: int = 16_000, subtype: str = "PCM_16") -> Path:
        soundfile.write(tmp_path / name, samples, rate, subtype=subtype)
        return tmp_path / name

    return written


def sine(frequency: float, *, rate: int = 16_000, seconds: float = 1.0, peak: float = 0.5) -> np.ndarray:
    return (peak * np.sin(2 * np.pi * frequency * np.arange(int(rate * seconds)) / rate)).astype(np.float32)
