"""Random orders and draws as pure functions of a seed and a position, so that any position can be reached directly."""

import hashlib

import numpy as np

from t5x_like.text.objectives.random_bits import mix

_FEISTEL_ROUNDS = 8


def key_of(*parts: object) -> np.ndarray:
    """Return a Philox key, uint64 [2], for a seed and its purpose."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()
    return np.frombuffer(digest, np.uint64)


def shuffled(size: int, key: np.ndarray) -> np.ndarray:
    """Return a permutation of ``range(size)`` by sorting raw bits, independent of NumPy's version.

    Args:
      size: Number of elements.
      key: Random key, uint64 [2].
    """
    return np.argsort(np.random.Philox(key=key).random_raw(size), kind="stable")


def permuted(positions: np.ndarray, size: int, key: np.ndarray) -> np.ndarray:
    """Return the images of some positions under a permutation of ``range(size)``, without building it.

    A Feistel network over the next power of 4, repeated for values outside the range (Black and Rogaway 2002,
    https://doi.org/10.1007/3-540-45760-7_9).

    Args:
      positions: Positions, integers below ``size``.
      size: Number of elements.
      key: Random key, uint64 [2].

    Returns:
      int64, as many as ``positions``.
    """
    half = np.uint64(max((size - 1).bit_length() + 1, 2) // 2)
    low = (np.uint64(1) << half) - np.uint64(1)
    rounds = np.random.Philox(key=key).random_raw(_FEISTEL_ROUNDS)
    sent = np.asarray(positions, np.uint64)
    outside = np.ones(sent.shape, bool)
    while outside.any():
        left, right = sent[outside] >> half, sent[outside] & low
        for salt in rounds:
            left, right = right, left ^ (mix(right ^ salt) & low)
        sent[outside] = (left << half) | right
        outside = sent >= size
    return sent.astype(np.int64)


def draw_tasks(shares: np.ndarray, start: int, count: int, key: np.ndarray) -> np.ndarray:
    """Draw the task of each example; draw ``k`` depends only on the key and ``k``.

    Args:
      shares: Relative rates of the tasks [T].
      start: Number of the first example.
      count: Number of examples.
      key: Random key, uint64 [2].

    Returns:
      Task indices, int64 [count].
    """
    seed = np.asarray(key, np.uint64)[None]
    numbers = np.arange(start, start + count, dtype=np.uint64)
    uniforms = (mix(mix(seed[:, 0] + numbers) ^ seed[:, 1]) >> np.uint64(11)) * 2.0**-53
    edges = np.cumsum(shares)
    drawn = np.searchsorted(edges, uniforms * edges[-1], side="right")
    return np.minimum(drawn, np.flatnonzero(shares)[-1])


def take_turns(shares: np.ndarray, start: int, count: int, turn_length: int) -> np.ndarray:
    """Return the task of each example where tasks take turns; those with a share of 0 have none.

    Args:
      shares: Relative rates of the tasks [T]; only whether they are 0 counts.
      start: Number of the first example.
      count: Number of examples.
      turn_length: Examples of a turn.

    Returns:
      Task indices, int64 [count].
    """
    tasks = np.flatnonzero(shares)
    return tasks[np.arange(start, start + count) // turn_length % len(tasks)]
