"""Scores of one task: metrics with confidence intervals, the majority baseline, and counts of problems."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from t5x_like.evaluation.class_scores import class_scores
from t5x_like.evaluation.questions import Questions
from t5x_like.evaluation.scores_file import Entry, Row
from t5x_like.nested_values import one_or_several
from t5x_like.text.metrics.baselines import MOST_FREQUENT
from t5x_like.text.metrics.bootstrap import intervals
from t5x_like.text.metrics.generation_metrics import bleu

Metrics = Sequence[Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]]


def score_questions(questions: Questions, rows: Sequence[Row], *, resamples: int) -> Entry:
    """Return the task's entry in ``scores.json``. Rows without a target have no influence on scores.

    Args:
      questions: The rows.
      rows: Rows of ``predictions.jsonl``, in order.
      resamples: Bootstrap resamples of confidence intervals; 0 computes none.
    """
    known = questions.labeled
    predictions = [
        questions.postprocess_answer(questions.rows[index], rows[index]["prediction"]) for index in known
    ]
    entry = score(questions.metrics, questions.targets, predictions, resamples=resamples)
    if known:
        likelihoods = [rows[index].get("log_likelihood") for index in known]
        for metric in questions.likelihood_metrics:
            entry["scores"] |= finite_or_none(metric(questions.targets, likelihoods))
        entry["baseline"] = finite_or_none(questions.baseline)
    return (
        entry
        | row_counts(questions.split, rows, num_labeled=len(known))
        | {
            "invalid": sum(not questions.is_valid(row["prediction"]) for row in rows),
            "labels": list(questions.labels),
        }
        | class_scores(questions.labels, rows)
    )


def score(
    metrics: Metrics, targets: Sequence[object], predictions: Sequence[object], *, resamples: int
) -> Entry:
    """Compute scores and confidence intervals by metric.

    A score that is not a number becomes ``None``, and its metric is listed under ``not_numbers``.

    Args:
      metrics: Metric functions.
      targets: Postprocessed targets.
      predictions: Postprocessed predictions.
      resamples: Bootstrap resamples of confidence intervals; 0 computes none.
    """
    entry: Entry = {"scores": {}, "intervals": {}, "baseline": {}, "baseline_name": MOST_FREQUENT}
    if not targets:
        return entry
    for metric in metrics:
        scores = {name: float(value) for name, value in metric(targets, predictions).items()}
        entry["scores"] |= finite_or_none(scores)
        bad = [name for name, value in scores.items() if not math.isfinite(value)]
        entry["not_numbers"] = [*entry.get("not_numbers", []), *bad]
        if resamples and len(targets) > 1:
            drawn = intervals(metric, targets, predictions, resamples=resamples)
            entry["intervals"] |= {name: interval and interval._asdict() for name, interval in drawn.items()}
        if getattr(metric, "__name__", "") == bleu.__name__:
            entry["signatures"] = {"bleu": bleu_signature(targets)}
    return entry


def row_counts(split: str, rows: Sequence[Row], *, num_labeled: int) -> Entry:
    """Count rows, unlabeled rows, cut inputs and dropped few-shot examples.

    Args:
      split: Name of the split, for messages.
      rows: Rows of ``predictions.jsonl``.
      num_labeled: Number of rows with a known target.
    """
    counts: Entry = {
        "examples": len(rows),
        "unlabeled": len(rows) - num_labeled,
        "cut_inputs": sum(bool(row.get("cut")) for row in rows),
        "dropped_examples": sum(row.get("dropped", 0) for row in rows),
    }
    if not num_labeled:
        counts["withheld"] = f"none of the {len(rows):,} rows of split {split!r} has a label"
    return counts


def finite_or_none(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Return scores as JSON can represent them: ``None`` instead of NaN and infinity."""
    return {name: float(value) if math.isfinite(value) else None for name, value in scores.items()}


def bleu_signature(targets: Sequence[object] = ("",)) -> str:
    """Return sacreBLEU's signature of the settings of ``metrics.bleu``.

    Args:
      targets: A reference for each row, or a list of them.
    """
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(tokenize="intl", smooth_method="exp", force=True)
    counts = {len(one_or_several(target)) for target in targets}
    # The signature names the number of references, or that it varies.
    streams = [["a", "a" if len(counts) == 1 or not reference else None] for reference in range(max(counts))]
    scorer.corpus_score(["a", "a"], streams)
    return str(scorer.get_signature())
