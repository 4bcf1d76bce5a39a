"""GLM's examples: a text with blanks, then what belongs there, blank after blank. For many texts at once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.text.objectives.objective import Example, Text


class Blanks(NamedTuple):
    """Blanks of many texts, in order of texts and places."""

    rows: np.ndarray  # int64 [S], the text's number
    starts: np.ndarray  # int64 [S], in the text
    ends: np.ndarray  # int64 [S]
    masks: np.ndarray  # int64 [S], the id that stands in the place of each
    order: np.ndarray  # [S], any numbers: blanks of one text are filled in by growing ones


def with_blanks(texts: Sequence[Text], blanks: Blanks, *, cls: int, start: int, end: int) -> list[Example]:
    """Part A is ``cls`` and the text with its blanks, part B ``start`` and the tokens of each blank, in their order.

    Targets of part B are its tokens and ``end``. Every token of a blank has its mask's position, and in
    ``block_positions`` its place in the blank, from 1. Du et al. 2022, §2.1, https://arxiv.org/abs/2103.10360.
    """
    sizes = np.array([len(text.tokens) for text in texts], np.int64)
    offsets = np.cumsum(sizes) - sizes
    flat = np.concatenate([text.tokens for text in texts])
    lengths = blanks.ends - blanks.starts
    begins = offsets[blanks.rows] + blanks.starts

    change = np.zeros(len(flat) + 1, np.int64)
    np.add.at(change, begins, 1)
    np.add.at(change, begins + lengths, -1)
    is_kept = np.cumsum(change[:-1]) == 0
    is_kept[begins] = True  # by the mask
    masked = flat.copy()
    masked[begins] = blanks.masks
    kept_before = np.append(0, np.cumsum(is_kept))
    text_sizes = kept_before[offsets + sizes] - kept_before[offsets] + 1  # with cls
    mask_positions = kept_before[begins] - kept_before[offsets[blanks.rows]] + 1

    # From here on blanks stand in the order in which they are filled in.
    by_order = np.lexsort((blanks.order, blanks.rows))
    begins, lengths, rows = begins[by_order], lengths[by_order], blanks.rows[by_order]
    blank_sizes = lengths + 1
    in_blank = np.arange(blank_sizes.sum()) - np.repeat(np.cumsum(blank_sizes) - blank_sizes, blank_sizes)
    source = np.repeat(begins, blank_sizes) + in_blank
    read = np.where(in_blank == 0, start, flat[source - 1])
    written = np.where(
        in_blank == np.repeat(lengths, blank_sizes), end, flat[np.minimum(source, len(flat) - 1)]
    )

    totals = text_sizes + np.bincount(rows, blank_sizes, len(texts)).astype(np.int64)
    firsts = np.cumsum(totals) - totals
    is_text = np.arange(totals.sum()) - np.repeat(firsts, totals) < np.repeat(text_sizes, totals)
    inputs, targets, positions, inside = (np.zeros(len(is_text), np.int32) for _ in range(4))
    part_a = np.full(text_sizes.sum(), cls, np.int32)
    is_cls = np.zeros(len(part_a), bool)
    is_cls[np.cumsum(text_sizes) - text_sizes] = True
    part_a[~is_cls] = masked[is_kept]
    inputs[is_text], inputs[~is_text] = part_a, read
    targets[is_text], targets[~is_text] = part_a, written
    positions[is_text] = np.arange(len(part_a)) - np.repeat(np.cumsum(text_sizes) - text_sizes, text_sizes)
    positions[~is_text] = np.repeat(mask_positions[by_order], blank_sizes)
    inside[~is_text] = in_blank + 1
    prefix, weights = is_text.astype(np.int32), (~is_text).astype(np.float32)
    return [
        Example(
            inputs=inputs[first:last],
            targets=targets[first:last],
            weights=weights[first:last],
            positions=positions[first:last],
            block_positions=inside[first:last],
            prefix=prefix[first:last],
        )
        for first, last in zip(firsts.tolist(), (firsts + totals).tolist(), strict=True)
    ]


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
