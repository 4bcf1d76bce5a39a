"""Checks of decoded samples: values that are no numbers, silence, and clipping."""

import numpy as np

SILENCE = 1e-3  # -60 dB of full scale
_FULL_SCALE = 0.999
_FLAT_SAMPLES = 3  # equal samples in a row, at full scale, are no peak of a wave


def check_samples(samples_TC: np.ndarray, *, may_be_silent: bool) -> tuple[str, ...]:
    """Return warnings about samples.

    Args:
      samples_TC: float32 [samples, channels].
      may_be_silent: Warn about silence instead of refusing it.

    Raises:
      ValueError: Samples are not finite or, unless allowed, silent.
    """
    if not np.isfinite(samples_TC).all():
        num_bad = int((~np.isfinite(samples_TC)).sum())
        raise ValueError(f"{num_bad:,} of its samples are no finite numbers; fetch or record it again")
    peak = float(np.abs(samples_TC).max())
    if peak < SILENCE:
        silent = "it is silent: no sample is louder than -60 dB of full scale"
        if not may_be_silent:
            raise ValueError(f"{silent}; record it again, or set silence='warn' to read it as it is")
        return (silent,)
    if peak > 1:
        return (f"samples reach {peak:.2f}, beyond the full scale of 1",)
    num_clipped = count_clipped(samples_TC)
    if not num_clipped:
        return ()
    return (
        f"{num_clipped:,} samples ({num_clipped / samples_TC.size:.2%}) are clipped at full scale; the recording was "
        "too loud",
    )


def count_clipped(samples_TC: np.ndarray) -> int:
    """Return the number of samples in flat stretches at full scale, float32 [samples, channels]."""
    if len(samples_TC) < _FLAT_SAMPLES:
        return 0
    windows = np.lib.stride_tricks.sliding_window_view(samples_TC, _FLAT_SAMPLES, axis=0)
    is_flat = (windows == windows[..., :1]).all(-1) & (np.abs(windows[..., 0]) >= _FULL_SCALE)
    is_clipped = np.zeros(samples_TC.shape, bool)
    for offset in range(_FLAT_SAMPLES):
        is_clipped[offset : offset + len(is_flat)] |= is_flat
    return int(is_clipped.sum())
