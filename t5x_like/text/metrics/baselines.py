"""Baselines without a model, to compare scores with."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.metrics.classification import Scores

MOST_FREQUENT = "most frequent training answer"


class MajorityBaseline(NamedTuple):
    """The most frequent training answer and its scores."""

    answer: str
    scores: Scores


def majority(
    train_targets: Iterable[str], targets: Sequence, metrics: Iterable[MetricFunction]
) -> MajorityBaseline:
    """Score the most frequent training target as the prediction for every row; ties go to the first seen.

    Args:
      train_targets: Targets of the training split.
      targets: Targets to compare with.
      metrics: Metric functions.
    """
    answer, _ = Counter(train_targets).most_common(1)[0]
    predictions = [answer] * len(targets)
    return MajorityBaseline(
        answer, {key: score for metric in metrics for key, score in metric(targets, predictions).items()}
    )
