"""Coreference: MUC, B³ and CEAF_e, and their mean, the score of the CoNLL-2012 shared task.

Definitions and worked examples: Pradhan et al. 2014, Scoring Coreference Partitions of Predicted Mentions: A Reference
Implementation, https://aclanthology.org/P14-2006; the mean: Pradhan et al. 2012, https://aclanthology.org/W12-4501.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from t5x_like.nested_values import one_or_several
from t5x_like.text.metrics.classification import Scores, require_pairs

Clusters = Sequence[Sequence[Any]]  # of one document; a mention is anything hashable, such as (start, end)

_METRICS = ("muc", "b_cubed", "ceaf_e")


def coreference_f1(targets: Sequence[Clusters], predictions: Sequence[Clusters]) -> Scores:
    """Compute precision, recall and F1 of MUC, B³ and CEAF_e, and ``conll_f1``, the mean of the three F1.

    Numerators and denominators are summed over documents before they are divided, as in the official scorer. A ratio
    whose denominator is 0 is 0.

    Args:
      targets: True clusters of mentions of each document.
      predictions: Predicted clusters; a mention is in one of them at most.

    Raises:
      ValueError: Different numbers of documents, or none.
    """
    return scores_from_coreference(coreference_counts(targets, predictions).sum(0))


def coreference_counts(targets: Sequence[Clusters], predictions: Sequence[Clusters]) -> np.ndarray:
    """Count for each document.

    Args:
      targets: True clusters of each document.
      predictions: Predicted clusters of each document.

    Returns:
      [documents, 3 metrics, 4]: numerator and denominator of recall, then of precision.
    """
    require_pairs(targets, predictions)
    pairs = (
        ([_hashed(each) for each in truth], [_hashed(each) for each in guess])
        for truth, guess in zip(targets, predictions, strict=True)
    )
    return np.array(
        [
            [
                [*_links(truth, guess), *_links(guess, truth)],
                [*_shares(truth, guess), *_shares(guess, truth)],
                _best_pairs(truth, guess),
            ]
            for truth, guess in pairs
        ]
    )


def scores_from_coreference(counts: np.ndarray) -> Scores:
    """Return the scores of summed counts, as from ``coreference_counts``."""
    scores: Scores = {}
    for name, (num_linked, true, right, predicted) in zip(_METRICS, counts.tolist(), strict=True):
        recall = num_linked / true if true else 0.0
        precision = right / predicted if predicted else 0.0
        total = precision + recall
        scores[f"{name}_precision"] = 100.0 * precision
        scores[f"{name}_recall"] = 100.0 * recall
        scores[f"{name}_f1"] = 200.0 * precision * recall / total if total else 0.0
    return {**scores, "conll_f1": sum(scores[f"{name}_f1"] for name in _METRICS) / len(_METRICS)}


def _hashed(cluster: Sequence[object]) -> frozenset[Hashable]:
    return frozenset(map(one_or_several, cluster))


def _links(truth: list[frozenset], guess: list[frozenset]) -> tuple[float, float]:
    """Return MUC's found and possible links of the true clusters (Vilain et al. 1995).

    A cluster that the other side cuts into p parts keeps ``size - p`` links. Mentions that the other side lacks are
    parts of their own.
    """
    cluster_of = {mention: index for index, cluster in enumerate(guess) for mention in cluster}
    num_links = 0
    for cluster in truth:
        parts = {cluster_of[mention] for mention in cluster if mention in cluster_of}
        num_links += len(cluster) - len(parts) - sum(mention not in cluster_of for mention in cluster)
    return float(num_links), float(sum(len(cluster) - 1 for cluster in truth if cluster))


def _shares(truth: list[frozenset], guess: list[frozenset]) -> tuple[float, float]:
    """Return B³'s sum over mentions of the share of its true cluster that it is with, and the number of mentions."""
    cluster_of = {mention: index for index, cluster in enumerate(guess) for mention in cluster}
    total = 0.0
    for cluster in truth:
        sizes: dict[int, int] = {}
        for mention in cluster:
            if mention in cluster_of:
                sizes[cluster_of[mention]] = sizes.get(cluster_of[mention], 0) + 1
        total += sum(size * size for size in sizes.values()) / len(cluster) if cluster else 0.0
    return total, float(sum(map(len, truth)))


def _best_pairs(truth: list[frozenset], guess: list[frozenset]) -> list[float]:
    """Return CEAF_e's similarity of the best one-to-one pairs of clusters, with both numbers of clusters (Luo 2005)."""
    from scipy.optimize import linear_sum_assignment  # takes a while to import

    similarity = 0.0
    if truth and guess:
        table = np.array([[2.0 * len(a & b) / max(len(a) + len(b), 1) for b in guess] for a in truth])
        similarity = float(table[linear_sum_assignment(table, maximize=True)].sum())
    return [similarity, float(len(truth)), similarity, float(len(guess))]
