"""Checks of decoded samples: values that are no numbers, silence, and clipping."""

import numpy as np

SILENCE = 1e-3  # -60 dB of full scale
_FULL_SCALE = 0.999


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
    """Return the number of samples in stretches of three or more equal ones at full scale, which no wave has.

    Args:
      samples_TC: float32 [samples, channels].
    """
    is_loud = np.abs(samples_TC) >= _FULL_SCALE
    if not is_loud.any():
        return 0
    repeats = (samples_TC[1:] == samples_TC[:-1]) & is_loud[1:]
    is_middle = repeats[:-1] & repeats[1:]  # equal to the sample before and to the one after
    is_clipped = np.zeros(samples_TC.shape, bool)
    for offset in range(3):
        is_clipped[offset : offset + len(is_middle)] |= is_middle
    return int(is_clipped.sum())
