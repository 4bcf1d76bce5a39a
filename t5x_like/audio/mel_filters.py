"""Triangular filters on the mel scale, and frames of a waveform in windows."""

import numpy as np

# Slaney's scale (Slaney 1998, Auditory Toolbox): linear to 1,000 Hz, then 27 steps for each factor of 6.4.
_LINEAR_HERTZ = 200.0 / 3.0
_BREAK_HERTZ = 1_000.0
_LOG_STEP = np.log(6.4) / 27.0
WINDOWS = ("hann_window", "hann", "hamming_window", "hamming", "povey", "boxcar")


def slaney_mel(hertz: np.ndarray | float) -> np.ndarray:
    """Return frequencies on Slaney's mel scale."""
    hertz = np.asarray(hertz, np.float64)
    above = _BREAK_HERTZ / _LINEAR_HERTZ + np.log(np.maximum(hertz, _BREAK_HERTZ) / _BREAK_HERTZ) / _LOG_STEP
    return np.where(hertz < _BREAK_HERTZ, hertz / _LINEAR_HERTZ, above)


def slaney_hertz(mel: np.ndarray | float) -> np.ndarray:
    """Return the frequencies of values on Slaney's mel scale."""
    mel = np.asarray(mel, np.float64)
    break_mel = _BREAK_HERTZ / _LINEAR_HERTZ
    above = _BREAK_HERTZ * np.exp(_LOG_STEP * (np.maximum(mel, break_mel) - break_mel))
    return np.where(mel < break_mel, mel * _LINEAR_HERTZ, above)


def triangles(centers: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the heights of triangles at positions, float64 [positions, triangles].

    Each has its peak of 1 at a center and is 0 from the neighboring centers on.

    Args:
      centers: Ascending, [triangles + 2]; the first and the last are ends only.
      positions: Points on the same scale.
    """
    widths = np.diff(centers)
    distances = positions[:, None] - centers[None, :]
    rising = distances[:, :-2] / widths[:-1]
    falling = -distances[:, 2:] / widths[1:]
    return np.maximum(0.0, np.minimum(rising, falling))


def slaney_filters(
    num_filters: int, *, num_bins: int, sampling_rate: int, fmin: float, fmax: float
) -> np.ndarray:
    """Return filters of equal area on Slaney's scale, float64 [bins, filters].

    Args:
      num_filters: Number of filters.
      num_bins: Bins of the spectrum, from 0 Hz to half of the sampling rate.
      sampling_rate: Samples per second.
      fmin: Lower end of the first filter in Hz.
      fmax: Upper end of the last filter in Hz.

    Raises:
      ValueError: A filter is narrower than the bins and would always be 0.
    """
    hertz = slaney_hertz(np.linspace(slaney_mel(fmin), slaney_mel(fmax), num_filters + 2))
    filters = triangles(hertz, np.linspace(0, sampling_rate // 2, num_bins))
    if not filters.any(axis=0).all():
        raise ValueError(
            f"{num_filters} mel filters are too narrow for {num_bins} frequencies; set fewer num_mel_bins, or a longer "
            "win_length"
        )
    return filters * (2.0 / (hertz[2:] - hertz[:-2]))


def window_of(name: str, length: int) -> np.ndarray:
    """Return a periodic window, float64 [length]; see ``WINDOWS``.

    Args:
      name: Name of the window, as transformers has it.
      length: Number of samples.

    Raises:
      ValueError: The name is unknown.
    """
    if name not in WINDOWS:
        raise ValueError(f"no window {name!r}; there are {', '.join(WINDOWS)}")
    kind = name.removesuffix("_window")
    if kind == "boxcar":
        return np.ones(length)
    if kind == "hamming":
        return np.hamming(length + 1)[:-1]
    hann = np.hanning(length + 1)[:-1]
    return hann**0.85 if kind == "povey" else hann
