"""Confidence intervals of scores by the bootstrap: rows are drawn with replacement (Efron 1979)."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.metrics.chunks import chunk_counts, chunk_f1, scores_from_counts
from t5x_like.text.metrics.classification import Scores, require_pairs
from t5x_like.text.metrics.coreference import coreference_counts, coreference_f1, scores_from_coreference
from t5x_like.text.metrics.generation_metrics import bleu, reference_streams, rouge, rouge_mean

RESAMPLES = 1000
_CHECKS, _FEW_UNITS = 3, 16  # draws and units on which a metric is tested to be a mean over units


class Interval(NamedTuple):
    """Confidence interval of a score.

    Attributes:
      low: Lower end, times 100 as the metric itself.
      high: Upper end.
      confidence: Share of draws between both ends.
      resamples: Number of draws.
      units: Number of drawn units: rows, or groups of rows (MultiRC's questions, ReCoRD's queries).
    """

    low: float
    high: float
    confidence: float
    resamples: int
    units: int


Metric = Callable[[Sequence[Any], Sequence[Any]], Scores]
Resampled = Callable[[np.ndarray], Mapping[str, float]]  # numbers of units -> scores


def intervals(
    metric: Metric,
    targets: Sequence[object],
    predictions: Sequence[object],
    *,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> dict[str, Interval | None]:
    """Compute percentile intervals of every score of a metric.

    The seed is derived from the rows: equal rows give equal intervals. Targets with a ``group``
    (``postprocessing.multirc`` and ``record``) are drawn group by group.

    Args:
      metric: Metric function.
      targets: Postprocessed targets.
      predictions: Postprocessed predictions.
      resamples: Number of draws, at least 2.
      confidence: Share of draws inside the interval.

    Returns:
      Intervals by score; ``None`` for a score that is not a number on most draws.

    Raises:
      ValueError: No rows, different numbers of targets and predictions, or a setting out of range.
    """
    require_pairs(targets, predictions)
    if resamples < 2 or not 0 < confidence < 1:
        raise ValueError(f"resamples={resamples} must be at least 2, confidence={confidence} between 0 and 1")
    units = units_of(targets)
    score = _resampler(metric, targets, predictions, units)
    draws = _draws(len(units), resamples, _seed(targets, predictions))
    drawn: dict[str, list[float]] = {}
    for draw in draws:
        for name, value in score(draw).items():
            drawn.setdefault(name, []).append(float(value))
    return {name: _interval(values, confidence, len(units)) for name, values in drawn.items()}


def _group_of(target: object) -> str | None:
    return repr(target["group"]) if isinstance(target, Mapping) and "group" in target else None


def units_of(targets: Sequence[object]) -> list[list[int]]:
    """Group the row numbers that are drawn together, in the order of their first rows."""
    units: dict[str, list[int]] = {}
    for index, target in enumerate(targets):
        units.setdefault(f"row {index}" if (group := _group_of(target)) is None else group, []).append(index)
    return list(units.values())


def _resampler(
    metric: Metric, targets: Sequence[Any], predictions: Sequence[Any], units: list[list[int]]
) -> Resampled:
    if metric is bleu:
        return _bleu_resampler(targets, predictions)
    if metric is chunk_f1:
        counts = chunk_counts(targets, predictions)
        return lambda draw: scores_from_counts(counts[draw].sum(0))
    if metric is coreference_f1:
        sums = coreference_counts(targets, predictions)
        return lambda draw: scores_from_coreference(sums[draw].sum(0))
    metric = rouge_mean if metric is rouge else metric

    def score(draw: np.ndarray) -> Scores:
        return _score(metric, targets, predictions, units, draw)

    means = _unit_means(score, len(units), _seed(targets, predictions))
    return means or score


def _score(
    metric: Metric,
    targets: Sequence[Any],
    predictions: Sequence[object],
    units: list[list[int]],
    draw: Iterable[int],
) -> Scores:
    """Compute the metric over drawn units; a group drawn twice counts as two."""
    truths, guesses = [], []
    for time, unit in enumerate(draw):
        for row in units[unit]:
            target = targets[row]
            if (group := _group_of(target)) is not None:
                target = {**target, "group": (time, group)}
            truths.append(target)
            guesses.append(predictions[row])
    return metric(truths, guesses)


def _unit_means(score: Callable[[np.ndarray], Scores], num_units: int, seed: int) -> Resampled | None:
    """Return a scorer a thousand times faster than ``score`` if that is a mean over units, else ``None``.

    This is tested: on a few units, which rules out most other metrics, then on all units and on a few draws.
    """
    draws = _draws(num_units, _CHECKS, seed + 1)
    few = draws[0][:_FEW_UNITS]
    if not _are_means(_table(score, few), np.arange(len(few)), score(few)):
        return None
    table = _table(score, range(num_units))
    if not all(_are_means(table, draw, score(draw)) for draw in (np.arange(num_units), *draws)):
        return None
    return lambda draw: {name: _mean_of_known(values[draw]) for name, values in table.items()}


def _table(score: Callable[[np.ndarray], Scores], units: Iterable[int]) -> dict[str, np.ndarray]:
    """Return the scores of each unit alone, NaN where a unit lacks a score."""
    rows = [score(np.array([unit])) for unit in units]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, math.nan) for row in rows], float) for name in names}


def _are_means(table: Mapping[str, np.ndarray], draw: np.ndarray, scores: Scores) -> bool:
    return table.keys() == scores.keys() and all(
        math.isclose(_mean_of_known(table[name][draw]), value, rel_tol=1e-9, abs_tol=1e-9)
        for name, value in scores.items()
    )


def _mean_of_known(values: np.ndarray) -> float:
    """Return the mean of the units that have a score, as where groups of rows have scores of their own."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def _bleu_resampler(targets: Sequence[Any], predictions: Sequence[str]) -> Resampled:
    """Count matching n-grams once per sentence, and add them up for each draw."""
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(tokenize="intl", smooth_method="exp", force=True, effective_order=True)
    streams = reference_streams(targets)
    rows = [
        scorer.sentence_score(guess, [stream[index] for stream in streams])
        for index, guess in enumerate(predictions)
    ]
    counts = np.array([[*row.counts, *row.totals, row.sys_len, row.ref_len] for row in rows])

    def score(draw: np.ndarray) -> Scores:
        total = counts[draw].sum(axis=0).tolist()
        result = BLEU.compute_bleu(total[:4], total[4:8], *total[8:], smooth_method="exp")
        return {"bleu": float(result.score)}

    return score


def _interval(values: list[float], confidence: float, units: int) -> Interval | None:
    numbers = np.array([value for value in values if math.isfinite(value)])
    if len(numbers) * 2 < len(values):
        return None
    edges = np.percentile(numbers, [50 * (1 - confidence), 50 * (1 + confidence)])
    return Interval(float(edges[0]), float(edges[1]), confidence, len(values), units)


def _draws(num_units: int, resamples: int, seed: int) -> np.ndarray:
    """Draw unit numbers, [resamples, num_units], from raw bits: the same in every version of NumPy."""
    raw = np.random.Philox(key=seed).random_raw(resamples * num_units)
    return ((raw >> np.uint64(32)) * np.uint64(num_units) >> np.uint64(32)).reshape(resamples, num_units)


def _seed(targets: Sequence[object], predictions: Sequence[object]) -> int:
    digest = hashlib.sha256()
    for pair in zip(targets, predictions, strict=False):
        digest.update(repr(pair).encode())
    return int.from_bytes(digest.digest()[:8], "big")
