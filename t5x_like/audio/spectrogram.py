"""Magnitudes of a waveform's short-time Fourier transform, with a bound on memory."""

from collections.abc import Iterator

import numpy as np

_FRAMES_AT_ONCE = 2_048


def frames_of(samples: np.ndarray, frame_length: int, hop: int) -> np.ndarray:
    """Return a view of the whole frames of a waveform, [frames, frame_length].

    Args:
      samples: Samples, at least one frame of them.
      frame_length: Samples of a frame.
      hop: Samples from one frame to the next.
    """
    return np.lib.stride_tricks.sliding_window_view(samples, frame_length)[::hop]


def centered(samples: np.ndarray, frame_length: int) -> np.ndarray:
    """Return samples that are mirrored at both ends, so that the first frame is centered on the first sample.

    Args:
      samples: At least one sample.
      frame_length: Samples of a frame.
    """
    return np.pad(samples, frame_length // 2, mode="reflect")


def magnitudes(frames: np.ndarray, window: np.ndarray, fft_length: int) -> Iterator[np.ndarray]:
    """Yield magnitudes of the spectra of frames, float64 [frames, bins], for some thousand frames at a time.

    Args:
      frames: Samples of each frame.
      window: Factors of the samples.
      fft_length: Length of the transform; frames are followed by zeros.
    """
    for start in range(0, len(frames), _FRAMES_AT_ONCE):
        windowed = frames[start : start + _FRAMES_AT_ONCE].astype(np.float64) * window
        yield np.abs(np.fft.rfft(windowed, fft_length))
