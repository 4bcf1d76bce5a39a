"""Answers in the words of their contexts, from what a head says of each window (Devlin et al. 2019, §4.2-4.3).

As in ``run_squad.py`` of https://github.com/google-research/bert.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.batches.head_questions import HeadQuestions
from t5x_like.text.heads import QuestionAnswering
from t5x_like.text.heads.span_head import squad_or_none

_NOTHING = ""


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


class Candidate(NamedTuple):
    """An answer, or none, and what both of its ends score."""

    text: str
    score: float


class SpanAnswers(NamedTuple):
    """Answers to one question, the best first; where there may be no answer, ``""`` is among them."""

    candidates: list[Candidate]
    null_score: float | None  # of no answer, where there may be none

    @property
    def null_score_diff(self) -> float | None:
        """By how much no answer scores more than the best one."""
        if self.null_score is None:
            return None
        return self.null_score - max((each.score for each in self.candidates if each.text), default=-np.inf)

    def answer(self, threshold: float) -> str:
        """The best, or none where that scores more by over ``threshold``."""
        if self.null_score_diff is not None and self.null_score_diff > threshold:
            return _NOTHING
        return next((each.text for each in self.candidates if each.text), _NOTHING)

    def described(self) -> dict[str, Any]:
        """For ``predictions.jsonl``: the candidates with their probabilities among each other."""
        scores = np.array([each.score for each in self.candidates])
        shares = np.exp(scores - scores.max(initial=-np.inf))
        listed = [
            {"text": text, "score": round(score, 4), "probability": round(share, 6)}
            for (text, score), share in zip(self.candidates, (shares / shares.sum()).tolist(), strict=True)
        ]
        diff = self.null_score_diff
        if diff is None or not np.isfinite(diff):
            return {"n_best": listed}
        return {"n_best": listed, "null_score_diff": diff}


def span_answers(
    questions: HeadQuestions, scores: Sequence[np.ndarray], *, max_answer_length: int = 30, size: int = 20
) -> list[SpanAnswers]:
    """The ``size`` best answers to each question, from scores [L, 2] of both ends in each window of its context.

    A token begins an answer only in the window that has most context around it. No answer scores what [CLS] does as
    both ends, in the window where that is least.
    """
    assert isinstance(questions.head_format, QuestionAnswering)
    windows: list[list[int]] = [[] for _ in questions.read]
    for number, origin in enumerate(questions.examples.origins.tolist()):
        windows[origin].append(number)
    return [
        _of_windows(questions, row, numbers, [scores[number] for number in numbers], max_answer_length, size)
        for row, numbers in enumerate(windows)
    ]


def best_thresholds(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The greatest exact match and F1 that any threshold would have given, and the threshold of each.

    Papers tell those of SQuAD 2.0's held-out questions, which its official script looks for (Rajpurkar et al. 2018).

    Args:
      rows: of ``predictions.jsonl``; those without a target, or without ``null_score_diff``, are passed over.
    """
    known = [row for row in rows if row["target"] is not None and "null_score_diff" in row]
    if not known:
        return {}
    known.sort(key=lambda row: row["null_score_diff"])
    diffs = np.array([row["null_score_diff"] for row in known])
    nothing = np.array([0.0 if row["target"] else 100.0 for row in known])
    # Below a threshold between two rows all before it are answered, and none after it.
    ends = [0, *(np.flatnonzero(np.diff(diffs)) + 1).tolist(), len(known)]
    thresholds = [diffs[0] - 1.0, *diffs[np.array(ends[1:]) - 1]]
    found: dict[str, float] = {}
    for name in ("em", "f1"):
        answered = np.array([_scores_of(row)[name] for row in known])
        totals = [answered[:end].sum() + nothing[end:].sum() for end in ends]
        best = int(np.argmax(totals))
        found |= {name: float(totals[best] / len(known)), f"{name}_threshold": float(thresholds[best])}
    return found


def _scores_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Scores of the best answer, were it given."""
    text = next((each["text"] for each in row["n_best"] if each["text"]), _NOTHING)
    return squad_or_none([row["target"]], [text])


def _of_windows(
    questions: HeadQuestions,
    row: int,
    numbers: Sequence[int],
    scores: Sequence[np.ndarray],
    max_answer_length: int,
    size: int,
) -> SpanAnswers:
    assert isinstance(questions.head_format, QuestionAnswering)
    examples, context = questions.examples, questions.read[row].row.texts[0][1]
    sizes = [
        (int(examples.offsets[number]), len(examples.character_offsets(number)[0])) for number in numbers
    ]
    candidates = [
        candidate
        for number, ends, mine in zip(numbers, scores, most_context(sizes), strict=True)
        for candidate in _of_window(questions, number, ends, mine, context, max_answer_length, size)
    ]
    null = None
    if questions.head_format.unanswerable:
        null = min(
            float(ends[examples.cls_position(number)].sum())
            for number, ends in zip(numbers, scores, strict=True)
        )
    candidates.sort(key=lambda candidate: -candidate.score)
    unique = {each.text: each for each in reversed(candidates)}  # of a text's places the best
    best = sorted(unique.values(), key=lambda candidate: -candidate.score)[:size]
    if null is not None:
        best = sorted([*best, Candidate(_NOTHING, null)], key=lambda candidate: -candidate.score)
    return SpanAnswers(best, null)


def _of_window(
    questions: HeadQuestions,
    number: int,
    ends: np.ndarray,
    may_start: np.ndarray,
    context: str,
    max_answer_length: int,
    size: int,
) -> list[Candidate]:
    starts, stops = questions.examples.character_offsets(number)
    if not len(starts):
        return []
    first = questions.examples.context_start(number)
    inside = ends[first : first + len(starts)]
    found = n_best_spans(
        inside[:, 0],
        inside[:, 1],
        may_start,
        np.ones(len(starts), bool),
        size=size * size,  # of which many may be the same text
        max_answer_length=max_answer_length,
    )
    return [Candidate(context[starts[span.first] : stops[span.last]], span.score) for span in found]


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


def _pairs(starts: np.ndarray, ends: np.ndarray, max_length: int) -> np.ndarray:
    """Scores [B, L, M] of each start with the ends from 0 tokens after it on."""
    reach = min(max_length, starts.shape[1])
    padded = np.pad(ends, ((0, 0), (0, reach - 1)), constant_values=-np.inf)
    return starts[:, :, None] + np.lib.stride_tricks.sliding_window_view(padded, reach, axis=1)
