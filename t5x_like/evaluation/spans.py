"""Answers from the scores of both ends: the best span, or none (Devlin et al. 2019, §4.2-4.3, arXiv:1810.04805)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

NO_ANSWER = -1


class Spans(NamedTuple):
    """One answer a row, all [B]: first and last token, both ``NO_ANSWER`` where there is none.

    ``scores`` are of the best span, whether it is the answer or not; ``null_scores`` are those of no answer.
    """

    starts: np.ndarray
    ends: np.ndarray
    scores: np.ndarray
    null_scores: np.ndarray


def best_spans(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    passage: np.ndarray,
    *,
    max_answer_length: int = 30,
    may_be_unanswerable: bool = False,
    threshold: float = 0.0,
    null_position: int = 0,
) -> Spans:
    """The span of greatest start and end logit that doesn't end before it starts.

    Args:
      start_logits: float [B, L], of each token to be the answer's first.
      end_logits: float [B, L], of each token to be its last.
      passage: [B, L], 1 where an answer may lie: not in the question, special tokens or padding.
      max_answer_length: in tokens.
      may_be_unanswerable: whether "no answer" is one, as in SQuAD 2.0. It scores what both ends have at
        ``null_position``, where [CLS] stands.
      threshold: by how much a span must beat that; chosen on held-out questions.

    Raises:
      ValueError: shapes that differ, a length below 1, or a row in which no answer may lie though there must be one.
    """
    starts, ends = np.asarray(start_logits, np.float32), np.asarray(end_logits, np.float32)
    inside = np.asarray(passage) > 0
    if not starts.shape == ends.shape == inside.shape or starts.ndim != 2:
        raise ValueError(
            f"start_logits {starts.shape}, end_logits {ends.shape} and passage {inside.shape} must all be "
            "[batch, length]"
        )
    if max_answer_length < 1:
        raise ValueError(f"max_answer_length is {max_answer_length}; give at least 1")
    empty = np.flatnonzero(~inside.any(axis=1))
    if len(empty) and not may_be_unanswerable:
        raise ValueError(f"no answer may lie in rows {empty.tolist()}: their passage is all 0")
    first, last, scores = _best_pairs(
        np.where(inside, starts, -np.inf), np.where(inside, ends, -np.inf), max_answer_length
    )
    nulls = starts[:, null_position] + ends[:, null_position]
    if may_be_unanswerable:
        answered = scores > nulls + threshold
        first, last = (np.where(answered, places, NO_ANSWER) for places in (first, last))
    return Spans(first, last, scores, nulls)


class Span(NamedTuple):
    """One answer among others: its first and last token and what each end scores."""

    first: int
    last: int
    start_score: float
    end_score: float

    @property
    def score(self) -> float:
        """Of both ends."""
        return self.start_score + self.end_score


def n_best_spans(
    starts: np.ndarray,
    ends: np.ndarray,
    may_start: np.ndarray,
    may_end: np.ndarray,
    *,
    size: int,
    max_answer_length: int,
) -> list[Span]:
    """The ``size`` spans of one row that score most, the best first; of equal ones the earlier first.

    All arrays are [L]. (BERT's code looks only among the 20 best starts and ends; here all are looked at.)
    """
    first = np.where(may_start, starts, -np.inf)[None].astype(np.float32)
    last = np.where(may_end, ends, -np.inf)[None].astype(np.float32)
    pairs = _pairs(first, last, max_answer_length)[0]
    flat = pairs.reshape(-1)
    least = np.partition(flat, -size)[-size] if len(flat) > size else -np.inf
    found = np.flatnonzero((flat >= least) & (flat > -np.inf))
    best = found[np.argsort(-flat[found], kind="stable")][:size]
    return [
        Span(place, place + further, float(starts[place]), float(ends[place + further]))
        for place, further in zip(*(each.tolist() for each in np.divmod(best, pairs.shape[1])), strict=True)
    ]


def most_context(windows: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """For each window (offset, length) of a text, bool [length]: the tokens that no other window has more around.

    That is the lesser of the tokens to the left and to the right, and a hundredth of the window's length; of equal
    windows the first. An answer counts only in the window that has most around its first token (Devlin et al. 2019's
    ``run_squad.py``, https://github.com/google-research/bert).
    """
    size = max((offset + length for offset, length in windows), default=0)
    best, owner = np.full(size, -np.inf), np.zeros(size, np.int64)
    for number, (offset, length) in enumerate(windows):
        left = np.arange(length)
        around = np.minimum(left, left[::-1]) + 0.01 * length
        inside = slice(offset, offset + length)
        owner[inside] = np.where(around > best[inside], number, owner[inside])
        best[inside] = np.maximum(around, best[inside])
    return [owner[offset : offset + length] == number for number, (offset, length) in enumerate(windows)]


def _best_pairs(
    starts: np.ndarray, ends: np.ndarray, max_length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Among equals the first start wins, then the shortest span."""
    pairs = _pairs(starts, ends, max_length)
    flat = pairs.reshape(len(pairs), -1)
    best = flat.argmax(axis=1)
    first, further = np.divmod(best, pairs.shape[2])
    return first, first + further, np.take_along_axis(flat, best[:, None], axis=1)[:, 0]


def _pairs(starts: np.ndarray, ends: np.ndarray, max_length: int) -> np.ndarray:
    """[B, L, M]: each start with the ends from 0 tokens after it on."""
    reach = min(max_length, starts.shape[1])
    padded = np.pad(ends, ((0, 0), (0, reach - 1)), constant_values=-np.inf)
    return starts[:, :, None] + np.lib.stride_tricks.sliding_window_view(padded, reach, axis=1)
