"""Division of windows into texts of one or two segments of given lengths."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.text.objectives.objective import Cuts, DocumentWindow
from t5x_like.text.objectives.random_bits import random_fractions, seeds_of_rows


class SegmentKind(NamedTuple):
    """One kind of text.

    Attributes:
      share: Relative frequency.
      max_length: Tokens of a text.
      has_two: Whether there is a second segment, which continues the first.
      is_random: Whether the second segment comes from elsewhere in the window instead.
    """

    share: float
    max_length: int
    has_two: bool = False
    is_random: bool = False


def cut_segments(window: DocumentWindow, kinds: Sequence[SegmentKind], key: np.ndarray) -> Cuts:
    """Cut texts over all documents of the window; their labels are the indices of their kinds.

    The boundary of two segments is drawn uniformly. After a text with a random second segment, the next text starts
    with the actual continuation. At the window's end texts are shorter, and may have one segment instead of two.

    Args:
      window: Concatenated documents.
      kinds: Kinds of texts to draw from.
      key: Random key, uint64 [2].
    """
    total = len(window.tokens)
    max_lengths, has_two, is_random = (
        np.array(column) for column in zip(*(kind[1:] for kind in kinds), strict=True)
    )
    edges = np.cumsum([kind.share for kind in kinds])
    count = total // int(max_lengths.min()) + 1
    while True:
        drawn = random_fractions(seeds_of_rows(key, np.arange(count)), 3)
        labels = np.minimum(
            np.searchsorted(edges, drawn[:, 0] * edges[-1], side="right"),
            np.flatnonzero(np.diff(edges, prepend=0))[-1],
        )
        limit, two, other = max_lengths[labels], has_two[labels], is_random[labels]
        first = np.where(two, 1 + (drawn[:, 1] * (limit - 1)).astype(np.int64), limit)
        used = np.where(other, first, limit)
        if used.sum() >= total:
            break
        count *= 2
    starts = np.cumsum(used) - used
    is_inside = starts < total
    starts, first, limit, labels = starts[is_inside], first[is_inside], limit[is_inside], labels[is_inside]
    left = total - starts
    elsewhere = has_two[labels] & is_random[labels]
    follows = has_two[labels] & ~elsewhere
    first = np.minimum(first, np.where(follows & (left > 1), left - 1, left))
    second = np.where(follows, np.minimum(limit - first, left - first), 0)
    second = np.where(elsewhere, np.minimum(limit - first, total), second)
    begins = starts + first
    begins = np.where(elsewhere, _elsewhere(begins, second, total, drawn[is_inside, 2]), begins)
    return Cuts(np.stack([starts, begins], 1), np.stack([starts + first, begins + second], 1), labels)


def _elsewhere(truth: np.ndarray, sizes: np.ndarray, total: int, fractions: np.ndarray) -> np.ndarray:
    """Draw starts of segments, int64 [N], that don't overlap the actual continuations if the window is long enough."""
    num_starts = total - sizes + 1
    drawn = (fractions * num_starts).astype(np.int64)
    overlaps = np.abs(drawn - truth) < sizes
    return np.where(overlaps, (drawn + total // 2) % num_starts, drawn)
