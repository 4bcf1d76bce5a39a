"""Extractive question answering: answer spans from the start and end scores of each context window.

Follows Devlin et al. 2019, §4.2-4.3, and ``run_squad.py`` of https://github.com/google-research/bert.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from t5x_like.evaluation.scores_file import Row
from t5x_like.text.batches.head_questions import HeadQuestions
from t5x_like.text.heads import QuestionAnswering
from t5x_like.text.heads.span_head import squad_or_none

_NOTHING = ""


@dataclass(frozen=True, kw_only=True)
class SpanSearch:
    """Search for answers among the spans of a context (Devlin et al. 2019, §4.2-4.3).

    Attributes:
      max_answer_length: Tokens of an answer, at most.
      null_score_diff_threshold: For questions that may have no answer: the empty answer is given if its score exceeds
        the best span's by more than this. Choose it on held-out questions.
      n_best: Candidates that are kept for each question.
    """

    max_answer_length: int = 30
    null_score_diff_threshold: float = 0.0
    n_best: int = 20


class Span(NamedTuple):
    """A candidate answer: its first and last token and the score of each end."""

    first: int
    last: int
    start_score: float
    end_score: float

    @property
    def score(self) -> float:
        """Sum of both ends' scores."""
        return self.start_score + self.end_score


class Candidate(NamedTuple):
    """An answer text (empty for no answer) and the sum of both ends' scores."""

    text: str
    score: float


class SpanAnswers(NamedTuple):
    """Candidate answers to one question.

    Attributes:
      candidates: The best first; ``""`` is among them if the question may have no answer.
      null_score: Score of no answer; ``None`` if every question has one.
    """

    candidates: list[Candidate]
    null_score: float | None

    @property
    def null_score_diff(self) -> float | None:
        """Score of no answer minus the best answer's score."""
        if self.null_score is None:
            return None
        return self.null_score - max((each.score for each in self.candidates if each.text), default=-np.inf)

    def answer(self, threshold: float) -> str:
        """Return the best answer, or ``""`` if ``null_score_diff`` exceeds ``threshold``."""
        if self.null_score_diff is not None and self.null_score_diff > threshold:
            return _NOTHING
        return next((each.text for each in self.candidates if each.text), _NOTHING)

    def described(self) -> dict[str, Any]:
        """Return fields for ``predictions.jsonl``: candidates with a softmax over their scores."""
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
    questions: HeadQuestions,
    head_format: QuestionAnswering,
    scores: Sequence[np.ndarray],
    search: SpanSearch,
) -> list[SpanAnswers]:
    """Find the best answers to each question over all windows of its context.

    A token starts an answer only in the window with most context around it. The score of no answer is that of [CLS] as
    both ends, in the window where this is lowest.

    Args:
      questions: Tokenized rows.
      head_format: Their format.
      scores: Arrays [L, 2] with start and end scores for each window.
      search: Length and number of candidates.
    """
    windows: list[list[int]] = [[] for _ in questions.read]
    for window, origin in enumerate(questions.examples.origins.tolist()):
        windows[origin].append(window)
    return [
        _answers_from_windows(
            questions, head_format, row, numbers, [scores[window] for window in numbers], search
        )
        for row, numbers in enumerate(windows)
    ]


def best_thresholds(rows: Sequence[Row]) -> dict[str, float]:
    """Find the ``null_score_diff`` thresholds with the highest exact match and F1.

    Papers report these scores for SQuAD 2.0's development set, as its official script does (Rajpurkar et al. 2018).

    Args:
      rows: Rows of ``predictions.jsonl``; those without a target or ``null_score_diff`` are skipped.

    Returns:
      ``em``, ``em_threshold``, ``f1`` and ``f1_threshold``; empty without suitable rows.
    """
    known = [row for row in rows if row["target"] is not None and "null_score_diff" in row]
    if not known:
        return {}
    known.sort(key=lambda row: row["null_score_diff"])
    diffs = np.array([row["null_score_diff"] for row in known])
    nothing = np.array([0.0 if row["target"] else 100.0 for row in known])
    # With a threshold between two rows, all rows before it are answered and none after it.
    ends = [0, *(np.flatnonzero(np.diff(diffs)) + 1).tolist(), len(known)]
    thresholds = [diffs[0] - 1.0, *diffs[np.array(ends[1:]) - 1]]
    scores: dict[str, float] = {}
    for name in ("em", "f1"):
        answered = np.array([_scores_of(row)[name] for row in known])
        totals = [answered[:end].sum() + nothing[end:].sum() for end in ends]
        best = int(np.argmax(totals))
        scores |= {name: float(totals[best] / len(known)), f"{name}_threshold": float(thresholds[best])}
    return scores


def _scores_of(row: Row) -> dict[str, float]:
    """Return exact match and F1 of the best non-empty answer."""
    text = next((each["text"] for each in row["n_best"] if each["text"]), _NOTHING)
    return squad_or_none([row["target"]], [text])


def _answers_from_windows(
    questions: HeadQuestions,
    head_format: QuestionAnswering,
    row: int,
    numbers: Sequence[int],
    scores: Sequence[np.ndarray],
    search: SpanSearch,
) -> SpanAnswers:
    examples, context = questions.examples, questions.read[row].texts[0][1]
    sizes = [
        (int(examples.offsets[window]), len(examples.character_offsets(window)[0])) for window in numbers
    ]
    candidates = [
        candidate
        for window, ends, mine in zip(numbers, scores, max_context_masks(sizes), strict=True)
        for candidate in _candidates_in_window(questions, window, ends, mine, context, search)
    ]
    null = None
    if head_format.unanswerable:
        null = min(
            float(ends[examples.cls_position(window)].sum())
            for window, ends in zip(numbers, scores, strict=True)
        )
    candidates.sort(key=lambda candidate: -candidate.score)
    unique = {each.text: each for each in reversed(candidates)}  # the best position of each text
    best = sorted(unique.values(), key=lambda candidate: -candidate.score)[: search.n_best]
    if null is not None:
        best = sorted([*best, Candidate(_NOTHING, null)], key=lambda candidate: -candidate.score)
    return SpanAnswers(best, null)


def _candidates_in_window(
    questions: HeadQuestions,
    window: int,
    ends: np.ndarray,
    may_start: np.ndarray,
    context: str,
    search: SpanSearch,
) -> list[Candidate]:
    starts, stops = questions.examples.character_offsets(window)
    if not len(starts):
        return []
    first = questions.examples.context_start(window)
    inside = ends[first : first + len(starts)]
    spans = n_best_spans(
        inside[:, 0],
        inside[:, 1],
        may_start,
        np.ones(len(starts), bool),
        size=search.n_best**2,  # many may be the same text
        max_answer_length=search.max_answer_length,
    )
    return [Candidate(context[starts[span.first] : stops[span.last]], span.score) for span in spans]


def n_best_spans(
    starts: np.ndarray,
    ends: np.ndarray,
    may_start: np.ndarray,
    may_end: np.ndarray,
    *,
    size: int,
    max_answer_length: int,
) -> list[Span]:
    """Return the highest-scoring spans of one row, the best first; ties are ordered by position.

    All arrays are [L]. BERT's code considers only the 20 best starts and ends; this considers all.

    Args:
      starts: Start scores.
      ends: End scores.
      may_start: Tokens at which a span may start.
      may_end: Tokens at which a span may end.
      size: Number of spans.
      max_answer_length: Tokens of a span, at most.
    """
    first = np.where(may_start, starts, -np.inf)[None].astype(np.float32)
    last = np.where(may_end, ends, -np.inf)[None].astype(np.float32)
    pairs = _pairs(first, last, max_answer_length)[0]
    flat = pairs.reshape(-1)
    least = np.partition(flat, -size)[-size] if len(flat) > size else -np.inf
    candidates = np.flatnonzero((flat >= least) & (flat > -np.inf))
    best = candidates[np.argsort(-flat[candidates], kind="stable")][:size]
    return [
        Span(position, position + further, float(starts[position]), float(ends[position + further]))
        for position, further in zip(
            *(each.tolist() for each in np.divmod(best, pairs.shape[1])), strict=True
        )
    ]


def max_context_masks(windows: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """Find the window in which each token has most context ("max context" of BERT's ``run_squad.py``).

    The context of a token is the smaller number of tokens to its left or right, plus a hundredth of the window's
    length. The first of equal windows wins.

    Args:
      windows: Offset and length of each window of a text.

    Returns:
      For each window, bool [length]: True for the tokens that belong to it.
    """
    size = max((offset + length for offset, length in windows), default=0)
    best, owner = np.full(size, -np.inf), np.zeros(size, np.int64)
    for index, (offset, length) in enumerate(windows):
        left = np.arange(length)
        around = np.minimum(left, left[::-1]) + 0.01 * length
        inside = slice(offset, offset + length)
        owner[inside] = np.where(around > best[inside], index, owner[inside])
        best[inside] = np.maximum(around, best[inside])
    return [owner[offset : offset + length] == index for index, (offset, length) in enumerate(windows)]


def _pairs(starts: np.ndarray, ends: np.ndarray, max_length: int) -> np.ndarray:
    """Return scores [B, L, M] of each start with each end up to ``max_length`` - 1 tokens later."""
    reach = min(max_length, starts.shape[1])
    padded = np.pad(ends, ((0, 0), (0, reach - 1)), constant_values=-np.inf)
    return starts[:, :, None] + np.lib.stride_tricks.sliding_window_view(padded, reach, axis=1)
