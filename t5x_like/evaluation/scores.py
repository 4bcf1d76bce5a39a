"""Answers of one task as scores: with intervals, beside what no model at all would score, and what went wrong."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from t5x_like.evaluation.prediction_log import Row
from t5x_like.evaluation.questions import Questions, training_rows
from t5x_like.text.metrics.baselines import majority
from t5x_like.text.metrics.bootstrap import intervals
from t5x_like.text.metrics.generation import bleu

BASELINE = "commonest training answer"
_TRAINING_ROWS = 100_000  # read for the baseline, at most

Metrics = Sequence[Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]]
Entry = dict[str, Any]


def score_rows(questions: Questions, rows: Sequence[Row], *, resamples: int) -> Entry:
    """The entry of a task in ``scores.json``. Rows without a label take no part in scores."""
    known = [place for place, row in enumerate(questions.rows) if questions.is_labelled(row)]
    asked = [questions.rows[place] for place in known]
    targets = [questions.answer_of(row, row.targets, is_target=True) for row in asked]
    predictions = [
        questions.answer_of(row, rows[place]["prediction"]) for row, place in zip(asked, known, strict=True)
    ]
    entry = score(questions.definition.metric_functions, targets, predictions, resamples=resamples)
    if targets:
        entry["baseline"] = _numbers(_baseline(questions, targets))
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
        entry["scores"] |= _numbers(found)
        bad = [name for name, value in found.items() if not math.isfinite(value)]
        entry["not_numbers"] = [*entry.get("not_numbers", []), *bad]
        if resamples and len(targets) > 1:
            drawn = intervals(metric, targets, predictions, resamples=resamples)
            entry["intervals"] |= {name: interval and interval._asdict() for name, interval in drawn.items()}
        if metric is bleu:
            entry["signatures"] = {"bleu": bleu_signature()}
    return entry


def counts(split: str, rows: Sequence[Row], *, num_labelled: int) -> Entry:
    """How many rows there are, and of how many something is missing."""
    found: Entry = {
        "examples": len(rows),
        "unlabelled": len(rows) - num_labelled,
        "cut_inputs": sum(bool(row.get("cut")) for row in rows),
        "dropped_examples": sum(row.get("dropped", 0) for row in rows),
    }
    if not num_labelled:
        found["withheld"] = f"none of the {len(rows):,} rows of split {split!r} has a label"
    return found


def bleu_signature() -> str:
    """How sacreBLEU names what ``metrics.bleu`` computes, so that others can compute the same."""
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(tokenize="intl", smooth_method="exp", force=True)
    scorer.corpus_score(["a"], [["a"]])  # the signature tells how many references there were
    return str(scorer.get_signature())


def _baseline(questions: Questions, targets: Sequence[Any]) -> dict[str, float]:
    """What always giving the commonest training answer scores; nothing where there is no training split to read."""
    try:
        rows = training_rows(questions.definition, limit=_TRAINING_ROWS)
    except ValueError:  # its files need not be there to evaluate on others
        return {}
    if not rows:
        return {}
    asked = [row for row in questions.rows if questions.is_labelled(row)]

    def of_texts(targets: Sequence[Any], texts: Sequence[str]) -> dict[str, float]:
        answers = [questions.answer_of(row, text) for row, text in zip(asked, texts, strict=True)]
        found: dict[str, float] = {}
        for metric in questions.definition.metric_functions:
            found |= metric(targets, answers)
        return found

    return majority((row.targets for row in rows), targets, [of_texts]).scores


def _numbers(scores: Mapping[str, float]) -> dict[str, float | None]:
    return {name: float(value) if math.isfinite(value) else None for name, value in scores.items()}
