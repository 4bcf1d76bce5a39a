"""GLM's examples, built for many texts at once: a text with blanks, then the tokens of each blank."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.text.objectives.objective import Example, Text


class Blanks(NamedTuple):
    """Blanks of many texts, sorted by text and position.

    Attributes:
      rows: Index of the text, int64 [S].
      starts: Start in the text, int64 [S].
      ends: End in the text, int64 [S].
      masks: Id that replaces the blank, int64 [S].
      order: Sort keys [S]; the blanks of a text are filled in by ascending key.
    """

    rows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    masks: np.ndarray
    order: np.ndarray


def infilling_examples(
    texts: Sequence[Text], blanks: Blanks, *, cls: int, start: int, end: int
) -> list[Example]:
    """Build examples of part A, ``cls`` and the text with its blanks, and part B, the blanks' tokens.

    In part B each blank reads ``start`` and its tokens, and predicts its tokens and ``end``. Its tokens have the
    position of their mask, and in ``block_positions`` their index in the blank, from 1. Du et al. 2022, §2.1,
    https://arxiv.org/abs/2103.10360.

    Args:
      texts: Source texts.
      blanks: Blanks of these texts.
      cls: Id before each text.
      start: Id before each blank's tokens.
      end: Id after each blank's tokens.
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
    is_kept[begins] = True  # the mask's position
    masked = flat.copy()
    masked[begins] = blanks.masks
    kept_before = np.append(0, np.cumsum(is_kept))
    text_sizes = kept_before[offsets + sizes] - kept_before[offsets] + 1  # with cls
    mask_positions = kept_before[begins] - kept_before[offsets[blanks.rows]] + 1

    # From here on blanks are in the order in which they are filled in.
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
    """Up to S spans in each of N rows, sorted by position; unused entries have length 0.

    Attributes:
      starts: int64 [N, S].
      lengths: int64 [N, S].
    """

    starts: np.ndarray
    lengths: np.ndarray


def draw_lengths(
    goals: np.ndarray, shares: np.ndarray, fractions: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """Draw span lengths until they reach a goal together.

    All spans fit into the rows with a token between them if a goal is at most half of the row. The last span is
    shortened if necessary; if S spans are too few, it gets the missing tokens.

    Args:
      goals: Total span length wanted for each row, int64 [N].
      shares: Relative probability of each length from 1 on.
      fractions: Random numbers in [0, 1), one for each span [N, S].
      totals: Row lengths, int64 [N].

    Returns:
      int64 [N, S]; 0 after the goal is reached.
    """
    edges = np.cumsum(shares)[:-1] / np.sum(shares)
    lengths = np.searchsorted(edges, fractions, side="right") + 1
    before = np.cumsum(lengths, axis=1) - lengths
    lengths[before >= goals[:, None]] = 0
    lengths[:, -1] = np.maximum(lengths[:, -1], goals - before[:, -1])
    available = totals[:, None] - before - np.arange(lengths.shape[1])
    return np.minimum(lengths, np.maximum(available, 0))


def place_apart(lengths: np.ndarray, totals: np.ndarray, fractions: np.ndarray) -> RandomSpans:
    """Place spans into rows, in the given order, with at least one token between two.

    The sorted random numbers divide the remaining tokens among the gaps, as in GLM's own code
    (https://github.com/THUDM/GLM).

    Args:
      lengths: Span lengths, int64 [N, S].
      totals: Row lengths, int64 [N].
      fractions: Random numbers in [0, 1), one for each span [N, S].
    """
    is_used = lengths > 0
    counts = np.count_nonzero(is_used, axis=1)
    remaining = totals - lengths.sum(axis=1) - np.maximum(counts - 1, 0)
    before = (fractions * (remaining + 1)[:, None]).astype(np.int64)
    before[~is_used] = np.iinfo(np.int64).max
    before.sort(axis=1)
    before_each = np.cumsum(lengths + 1, axis=1) - lengths - 1
    return RandomSpans(np.where(is_used, before + before_each, 0), lengths)
