"""Baselines without a model, to compare scores with."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.metrics.classification import Scores


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


def unigram_entropy(train_tokens: np.ndarray, tokens: np.ndarray, *, vocab_size: int) -> float:
    """Compute the cross-entropy in nats per token of a unigram model, which ignores all context.

    Counts are smoothed by adding one, so that unseen ids have a finite cost.

    Args:
      train_tokens: Ids that the frequencies are counted on.
      tokens: Ids to predict.
      vocab_size: Number of ids.
    """
    counts = np.bincount(np.asarray(train_tokens).ravel(), minlength=vocab_size) + 1.0
    costs = np.log(counts.sum()) - np.log(counts)
    return float(costs[np.asarray(tokens).ravel()].mean())
