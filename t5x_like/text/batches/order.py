"""Orders and draws that are pure functions of a seed and a place, so that any place can be gone to at
once."""

import hashlib

import numpy as np

_DRAWS_PER_BLOCK = 4096


def key_of(*parts: object) -> np.ndarray:
    """A Philox key, uint64 [2], for a seed and what it is for."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()
    return np.frombuffer(digest, np.uint64)


def shuffled(size: int, key: np.ndarray) -> np.ndarray:
    """A permutation of ``range(size)``. Sorted raw bits: the same with every version of NumPy."""
    return np.argsort(np.random.Philox(key=key).random_raw(size), kind="stable")


def draw_tasks(shares: np.ndarray, start: int, key: np.ndarray) -> np.ndarray:
    """Which task each example from number ``start`` on is taken from; ``shares`` sum to 1.

    Gives a few thousand draws. Draw ``k`` depends on the key and ``k`` alone.
    """
    block, offset = divmod(start, _DRAWS_PER_BLOCK)
    raw = np.random.Philox(key=key, counter=[0, 0, block, 0]).random_raw(_DRAWS_PER_BLOCK)
    uniforms = (raw[offset:] >> np.uint64(11)) * 2.0**-53
    edges = np.cumsum(shares)
    drawn = np.searchsorted(edges, uniforms * edges[-1], side="right")
    return np.minimum(drawn, np.flatnonzero(shares)[-1])
