"""Scores without a model, by answering the same for every input: baselines beside every score."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.metrics.classification import Scores


class Majority(NamedTuple):
    """The answer seen most often in training, and what it scores."""

    answer: str
    scores: Scores


def majority(train_targets: Iterable[str], targets: Sequence, metrics: Iterable[MetricFunction]) -> Majority:
    """Score the most frequent training target, given to every question; ties go to the first seen."""
    answer, _ = Counter(train_targets).most_common(1)[0]
    predictions = [answer] * len(targets)
    return Majority(
        answer, {key: score for metric in metrics for key, score in metric(targets, predictions).items()}
    )


def unigram_entropy(train_tokens: np.ndarray, tokens: np.ndarray, *, vocab_size: int) -> float:
    """Nats a token that frequencies of training tokens cost on ``tokens``: a model that ignores all context.

    Every id of the vocabulary counts once more than seen, so that an unseen one costs much but not
    everything.
    """
    counts = np.bincount(np.asarray(train_tokens).ravel(), minlength=vocab_size) + 1.0
    costs = np.log(counts.sum()) - np.log(counts)
    return float(costs[np.asarray(tokens).ravel()].mean())
