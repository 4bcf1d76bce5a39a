"""Answers of one task as scores: with intervals, beside those of no model at all, and with what went wrong."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from t5x_like.evaluation.questions import Questions
from t5x_like.evaluation.scores_file import Entry, Row
from t5x_like.text.metrics.bootstrap import intervals
from t5x_like.text.metrics.generation_metrics import bleu

BASELINE = "commonest training answer"

Metrics = Sequence[Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]]


def score_questions(questions: Questions, rows: Sequence[Row], *, resamples: int) -> Entry:
    """The entry of a task in ``scores.json``. Rows without a label take no part in scores."""
    known = questions.labelled
    predictions = [questions.answer_of(questions.rows[place], rows[place]["prediction"]) for place in known]
    entry = score(questions.metrics, questions.targets, predictions, resamples=resamples)
    if known:
        likelihoods = [rows[place].get("log_likelihood") for place in known]
        for metric in questions.likelihood_metrics:
            entry["scores"] |= numbers(metric(questions.targets, likelihoods))
        entry["baseline"] = numbers(questions.baseline)
    return (
        entry
        | counts(questions.split, rows, num_labelled=len(known))
        | {
            "invalid": sum(not questions.is_valid(row["prediction"]) for row in rows),
            "labels": list(questions.labels),
        }
    )


def score(metrics: Metrics, targets: Sequence[Any], predictions: Sequence[Any], *, resamples: int) -> Entry:
    """Scores by metric, ``None`` where one is not a number (and named in ``not_numbers``), and their intervals."""
    entry: Entry = {"scores": {}, "intervals": {}, "baseline": {}, "baseline_name": BASELINE}
    if not targets:
        return entry
    for metric in metrics:
        found = {name: float(value) for name, value in metric(targets, predictions).items()}
        entry["scores"] |= numbers(found)
        bad = [name for name, value in found.items() if not math.isfinite(value)]
        entry["not_numbers"] = [*entry.get("not_numbers", []), *bad]
        if resamples and len(targets) > 1:
            drawn = intervals(metric, targets, predictions, resamples=resamples)
            entry["intervals"] |= {name: interval and interval._asdict() for name, interval in drawn.items()}
        if metric is bleu:
            entry["signatures"] = {"bleu": bleu_signature()}
    return entry


def counts(split: str, rows: Sequence[Row], *, num_labelled: int) -> Entry:
    """Numbers of rows, and of those of which something is missing."""
    found: Entry = {
        "examples": len(rows),
        "unlabelled": len(rows) - num_labelled,
        "cut_inputs": sum(bool(row.get("cut")) for row in rows),
        "dropped_examples": sum(row.get("dropped", 0) for row in rows),
    }
    if not num_labelled:
        found["withheld"] = f"none of the {len(rows):,} rows of split {split!r} has a label"
    return found


def numbers(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Scores as JSON can have them: None in place of NaN and infinity."""
    return {name: float(value) if math.isfinite(value) else None for name, value in scores.items()}


def bleu_signature() -> str:
    """sacreBLEU's name of what ``metrics.bleu`` computes, so that others can compute the same."""
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(tokenize="intl", smooth_method="exp", force=True)
    scorer.corpus_score(["a"], [["a"]])  # the signature has the number of references
    return str(scorer.get_signature())
