"""Windows cut into texts of one or two segments, which end wherever their lengths say."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.text.objectives.objective import Cuts, DocumentWindow
from t5x_like.text.objectives.random_bits import random_fractions, seeds_of_rows


class SegmentKind(NamedTuple):
    """One kind of text, and how often it is drawn."""

    share: float
    room: int  # tokens of a text
    has_two: bool = False  # segments, the second of which goes on where the first ends
    is_random: bool = False  # the second comes from anywhere else in the window


def cut_segments(window: DocumentWindow, kinds: Sequence[SegmentKind], key: np.ndarray) -> Cuts:
    """Texts one after the other over all documents of the window; their labels are the numbers of their kinds.

    Where the first of two segments ends is drawn uniformly. A random second one leaves the true one to the next text.
    At the window's end texts are shorter, and what is too short for two segments is one.
    """
    total = len(window.tokens)
    rooms, has_two, is_random = (
        np.array(column) for column in zip(*(kind[1:] for kind in kinds), strict=True)
    )
    edges = np.cumsum([kind.share for kind in kinds])
    count = total // int(rooms.min()) + 1
    while True:
        drawn = random_fractions(seeds_of_rows(key, np.arange(count)), 3)
        labels = np.minimum(
            np.searchsorted(edges, drawn[:, 0] * edges[-1], side="right"),
            np.flatnonzero(np.diff(edges, prepend=0))[-1],
        )
        room, two, other = rooms[labels], has_two[labels], is_random[labels]
        first = np.where(two, 1 + (drawn[:, 1] * (room - 1)).astype(np.int64), room)
        used = np.where(other, first, room)
        if used.sum() >= total:
            break
        count *= 2
    starts = np.cumsum(used) - used
    there = starts < total
    starts, first, room, labels = starts[there], first[there], room[there], labels[there]
    left = total - starts
    elsewhere = has_two[labels] & is_random[labels]
    follows = has_two[labels] & ~elsewhere
    first = np.minimum(first, np.where(follows & (left > 1), left - 1, left))
    second = np.where(follows, np.minimum(room - first, left - first), 0)
    second = np.where(elsewhere, np.minimum(room - first, total), second)
    begins = starts + first
    begins = np.where(elsewhere, _elsewhere(begins, second, total, drawn[there, 2]), begins)
    return Cuts(np.stack([starts, begins], 1), np.stack([starts + first, begins + second], 1), labels)


def _elsewhere(truth: np.ndarray, sizes: np.ndarray, total: int, fractions: np.ndarray) -> np.ndarray:
    """Places int64 [N] of stretches that don't overlap the true ones, wherever the window has room for that."""
    places = total - sizes + 1
    drawn = (fractions * places).astype(np.int64)
    overlaps = np.abs(drawn - truth) < sizes
    return np.where(overlaps, (drawn + total // 2) % places, drawn)
