"""Correlation of predicted numbers with true ones, times 100."""

from collections.abc import Sequence

import numpy as np

from t5x_like.text.metrics.classification import Scores, require_pairs


def pearson_corrcoef(targets: Sequence[float], predictions: Sequence[float]) -> Scores:
    """Linear correlation; not a number where one side is constant or has one that is no number."""
    return {"pearson_corrcoef": 100.0 * _correlation(targets, predictions)}


def spearman_corrcoef(targets: Sequence[float], predictions: Sequence[float]) -> Scores:
    """Correlation of ranks, tied numbers sharing the mean of their ranks; not a number as ``pearson_corrcoef``."""
    if not len(targets) and not len(predictions):
        return {"spearman_corrcoef": float("nan")}
    if np.isnan(targets).any() or np.isnan(predictions).any():
        return {"spearman_corrcoef": float("nan")}
    return {"spearman_corrcoef": 100.0 * _correlation(_ranks(targets), _ranks(predictions))}


def _correlation(targets: Sequence[float] | np.ndarray, predictions: Sequence[float] | np.ndarray) -> float:
    require_pairs(targets, predictions)  # pyright: ignore[reportArgumentType]
    truth = np.asarray(targets, np.float64)
    guess = np.asarray(predictions, np.float64)
    # Asked before the mean is taken off, which leaves something of constants that binary numbers can't hold.
    if any(np.all(side == side[0]) or not np.isfinite(side).all() for side in (truth, guess)):
        return float("nan")
    found = float(np.clip(np.vecdot(_direction(truth), _direction(guess)), -1.0, 1.0))
    return (
        float(round(found)) if len(truth) == 2 and np.isfinite(found) else found
    )  # two points lie on a line


def _direction(values: np.ndarray) -> np.ndarray:
    """Differences from the mean, of length 1; no numbers where there are none."""
    differences = values - values.mean()
    largest = np.abs(differences).max()
    if largest == 0:
        return np.full_like(differences, np.nan)
    # Scaled, as squares of what is very small or large are 0 or infinite.
    return differences / (largest * np.linalg.norm(differences / largest))


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, numbers, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[numbers]
