"""Correlation of predicted and true numbers, times 100."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from t5x_like.text.metrics.classification import Scores, require_pairs


def pearson_corrcoef(targets: Sequence[float], predictions: Sequence[float]) -> Scores:
    """Compute Pearson's correlation; NaN if one side is constant or has a value that is not finite.

    Args:
      targets: True numbers.
      predictions: Predicted numbers.
    """
    return {"pearson_corrcoef": 100.0 * _correlation(np.asarray(targets), np.asarray(predictions))}


def spearman_corrcoef(targets: Sequence[float], predictions: Sequence[float]) -> Scores:
    """Compute Spearman's rank correlation, where ties share their mean rank; NaN for a constant side or a NaN.

    Args:
      targets: True numbers.
      predictions: Predicted numbers.
    """
    import scipy.stats  # takes seconds to import

    if not len(targets) and not len(predictions):
        return {"spearman_corrcoef": float("nan")}
    ranks = [scipy.stats.rankdata(side, nan_policy="propagate") for side in (targets, predictions)]
    return {"spearman_corrcoef": 100.0 * _correlation(*ranks)}


def _correlation(truth: np.ndarray, guess: np.ndarray) -> float:
    import scipy.stats  # takes seconds to import

    require_pairs(truth, guess)  # pyright: ignore[reportArgumentType] - arrays are sequences
    if any(np.all(side == side[0]) or not np.isfinite(side).all() for side in (truth, guess)):
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.NearConstantInputWarning)
        result: Any = scipy.stats.pearsonr(truth, guess)
    return float(result.statistic)
