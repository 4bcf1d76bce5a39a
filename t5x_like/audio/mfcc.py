"""Mel-frequency cepstral coefficients as Kaldi computes them, from which HuBERT's first clusters are made.

Povey et al. 2011, "The Kaldi speech recognition toolkit"; Hsu et al. 2021 (HuBERT), section IV-B: 13 coefficients with
their first and second differences in time.
"""

import math

import numpy as np
from scipy.fft import dct

from t5x_like.audio.mel_filters import triangles
from t5x_like.audio.spectrogram import frames_of, magnitudes

MFCC_RATE = 100  # frames per second
MFCC_WIDTH = 39
_WINDOW_SECONDS = 0.025
_PREEMPHASIS = 0.97
_NUM_FILTERS, _LOWEST_HERTZ = 23, 20.0
_LIFTER = 22.0
_NUM_COEFFICIENTS = 13


def mfcc(samples: np.ndarray, sampling_rate: int) -> np.ndarray:
    """Return 13 coefficients of each frame of 25 ms, every 10 ms; float32 [frames, 13].

    Args:
      samples: Samples, at least 25 ms of them.
      sampling_rate: Samples per second.

    Raises:
      ValueError: The waveform is shorter than a frame.
    """
    frame_length = int(_WINDOW_SECONDS * sampling_rate)
    if len(samples) < frame_length:
        raise ValueError(
            f"a waveform of {len(samples)} samples is shorter than a frame of {frame_length}; leave it out"
        )
    frames = frames_of(samples.astype(np.float64), frame_length, sampling_rate // MFCC_RATE)
    frames = frames - frames.mean(axis=1, keepdims=True)
    frames = np.concatenate([frames[:, :1], frames[:, 1:]], axis=1) - _PREEMPHASIS * np.concatenate(
        [frames[:, :1], frames[:, :-1]], axis=1
    )
    window = np.hanning(frame_length) ** 0.85
    fft_length = 1 << (frame_length - 1).bit_length()
    filters = _filters(fft_length // 2 + 1, sampling_rate)
    energies = np.concatenate([part**2 @ filters for part in magnitudes(frames, window, fft_length)])
    logs = np.log(np.maximum(energies, np.finfo(np.float32).eps))
    coefficients = np.asarray(dct(logs, type=2, norm="ortho", axis=1))[:, :_NUM_COEFFICIENTS]
    lifter = 1 + _LIFTER / 2 * np.sin(math.pi * np.arange(_NUM_COEFFICIENTS) / _LIFTER)
    return (coefficients * lifter).astype(np.float32)


def mfcc_with_differences(samples: np.ndarray, sampling_rate: int) -> np.ndarray:
    """Return coefficients and their first and second differences in time, float32 [frames, 39].

    Args:
      samples: Samples, at least 25 ms of them.
      sampling_rate: Samples per second.

    Raises:
      ValueError: The waveform is shorter than a frame.
    """
    coefficients = mfcc(samples, sampling_rate)
    first = differences(coefficients)
    return np.concatenate([coefficients, first, differences(first)], axis=1)


def differences(rows: np.ndarray) -> np.ndarray:
    """Return slopes in time by least squares over five frames, of the shape [frames, width] of ``rows``."""
    padded = np.pad(rows, ((2, 2), (0, 0)), mode="edge")
    length = len(rows)
    weighted = sum(step * padded[2 + step : 2 + step + length] for step in (-2, -1, 1, 2))
    return np.asarray(weighted / 10, rows.dtype)


def _filters(num_bins: int, sampling_rate: int) -> np.ndarray:
    """Return triangles of equal width on Kaldi's mel scale, float64 [bins, filters]."""
    hertz = np.linspace(0, sampling_rate / 2, num_bins)
    low, high = _kaldi_mel(np.array([_LOWEST_HERTZ, sampling_rate / 2]))
    return triangles(np.linspace(low, high, _NUM_FILTERS + 2), _kaldi_mel(hertz))


def _kaldi_mel(hertz: np.ndarray) -> np.ndarray:
    return 1127.0 * np.log(1 + hertz / 700.0)
