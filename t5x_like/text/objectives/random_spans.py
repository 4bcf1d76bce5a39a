"""Spans of random lengths at random places: for many texts at once, each by its own numbers."""

from typing import NamedTuple

import numpy as np


class RandomSpans(NamedTuple):
    """Up to S spans in each of N rows, in order of their places; those beyond a row's count have length 0."""

    starts: np.ndarray  # int64 [N, S]
    lengths: np.ndarray  # int64 [N, S]

    @property
    def are_there(self) -> np.ndarray:
        """bool [N, S]."""
        return self.lengths > 0


def draw_lengths(
    goals: np.ndarray, shares: np.ndarray, fractions: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """Lengths int64 [N, S] drawn until they reach ``goals``, int64 [N], together; 0 after that.

    A length of ``n`` has the chances ``shares[n - 1]``; ``fractions`` [N, S] decide. Should S not be enough, the last
    span takes what is missing. All fit into ``totals``, int64 [N], with a token between them, if a goal is at most half
    of that: the last one is cut if need be.
    """
    edges = np.cumsum(shares)[:-1] / np.sum(shares)
    lengths = np.searchsorted(edges, fractions, side="right") + 1
    before = np.cumsum(lengths, axis=1) - lengths
    lengths[before >= goals[:, None]] = 0
    lengths[:, -1] = np.maximum(lengths[:, -1], goals - before[:, -1])
    room = totals[:, None] - before - np.arange(lengths.shape[1])
    return np.minimum(lengths, np.maximum(room, 0))


def place_apart(lengths: np.ndarray, totals: np.ndarray, fractions: np.ndarray) -> RandomSpans:
    """Puts spans into rows of ``totals``, int64 [N], tokens, in the order given, at least one token between two.

    ``fractions`` [N, S] decide: of the tokens that are left over, a number drawn for each span, sorted, stands before
    it (as GLM's own code places them, https://github.com/THUDM/GLM).
    """
    is_there = lengths > 0
    counts = np.count_nonzero(is_there, axis=1)
    left_over = totals - lengths.sum(axis=1) - np.maximum(counts - 1, 0)
    before = (fractions * (left_over + 1)[:, None]).astype(np.int64)
    before[~is_there] = np.iinfo(np.int64).max
    before.sort(axis=1)
    taken = np.cumsum(lengths + 1, axis=1) - lengths - 1
    return RandomSpans(np.where(is_there, before, 0) + np.where(is_there, taken, 0), lengths)
