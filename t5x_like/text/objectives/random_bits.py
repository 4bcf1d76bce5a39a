"""Random numbers for many examples at once, each row from its own seed; independent of NumPy's version."""

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ALL = 2**64 - 1
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def random_bits(seeds: np.ndarray, count: int, *, use: int = 0) -> np.ndarray:
    """Return 64 random bits per number; number ``k`` of a row depends only on its seed, ``use`` and ``k``.

    SplitMix64 as a hash of a counter (Steele et al. 2014, https://doi.org/10.1145/2714064.2660195), started from a hash
    of the seed.

    Args:
      seeds: uint64 [N, 2].
      count: Numbers per row.
      use: Identifies an independent sequence of numbers from the same seeds.

    Returns:
      uint64 [N, count].
    """
    offset = np.uint64((use + 1) * int(_STEP) & _ALL)  # a product of scalars would warn that it overflows
    start = mix(mix(seeds[:, 0] + offset) ^ seeds[:, 1])
    return mix(start[:, None] + np.arange(1, count + 1, dtype=np.uint64)[None] * _STEP)


def random_fractions(seeds: np.ndarray, count: int, *, use: int = 0) -> np.ndarray:
    """Return uniform numbers in [0, 1), float64 [N, count].

    Args:
      seeds: Seed of each row, uint64 [N, 2].
      count: Numbers of each row.
      use: Purpose: different numbers give independent values for the same seeds.
    """
    return (random_bits(seeds, count, use=use) >> np.uint64(11)) * 2.0**-53


def random_below(limit: int | np.ndarray, seeds: np.ndarray, count: int, *, use: int = 0) -> np.ndarray:
    """Return uniform integers in ``range(limit)``, int64 [N, count]; see ``random_bits``.

    Args:
      limit: Exclusive upper bound, one for all or one per row [N, 1].
      seeds: uint64 [N, 2].
      count: Numbers per row.
      use: Identifies an independent sequence.
    """
    return (random_fractions(seeds, count, use=use) * limit).astype(np.int64)


def seeds_of_rows(key: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return one seed per number, uint64 [N, 2].

    Args:
      key: Random key, uint64 [2].
      numbers: Integers that identify the rows [N].
    """
    numbers = np.asarray(numbers, np.uint64)
    return np.stack([np.full(len(numbers), key[0], np.uint64), numbers ^ key[1]], axis=1)


def mix(bits: np.ndarray) -> np.ndarray:
    """Apply SplitMix64's finalizer, a permutation of 64-bit numbers whose results look random."""
    bits = (bits ^ (bits >> _SHIFTS[0])) * _MULTIPLIERS[0]
    bits = (bits ^ (bits >> _SHIFTS[1])) * _MULTIPLIERS[1]
    return bits ^ (bits >> _SHIFTS[2])
