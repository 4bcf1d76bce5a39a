"""Calibration: how often predictions are right, next to the probability that the model gives them."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

NUM_BINS = 10


def pair_calibration(differences: Iterable[float]) -> Mapping[str, Any]:
    """Compare the probabilities of predicted preferences with the share that is right.

    The answer with the higher reward is predicted, with the probability ``sigmoid(|difference|)`` of Bradley and Terry
    (1952). It lies between 50 and 100 %, which are cut into ten bins. Equal rewards predict nothing right.

    >>> round(pair_calibration([2.0, -0.1])["error"], 1)  # 12 and 52 points away from what happened
    32.2

    Args:
      differences: Reward of each pair's better answer less that of its worse one. NaN is left out.

    Returns:
      ``pairs``, their number; ``accuracy``, the share that is right; ``error``, the expected calibration error (Guo et
      al. 2017, eq. 3); and ``bins`` with ``low``, ``high``, ``pairs``, and the means ``predicted`` and ``observed``,
      None in an empty bin. All but numbers of pairs are times 100.
    """
    finite = np.array([each for each in differences if math.isfinite(each)], np.float64)
    probabilities = 100 / (1 + np.exp(-np.abs(finite)))
    right = 100.0 * (finite > 0)
    edges = np.linspace(50, 100, NUM_BINS + 1)
    bin_of_pair = np.clip(np.searchsorted(edges, probabilities, side="right") - 1, 0, NUM_BINS - 1)
    bins, error = [], 0.0
    for bin_index in range(NUM_BINS):
        inside = bin_of_pair == bin_index
        count = int(inside.sum())
        predicted = float(probabilities[inside].mean()) if count else None
        observed = float(right[inside].mean()) if count else None
        if predicted is not None and observed is not None:
            error += count / len(finite) * abs(predicted - observed)
        low, high = edges[bin_index : bin_index + 2].tolist()
        bins.append({"low": low, "high": high, "pairs": count, "predicted": predicted, "observed": observed})
    return {
        "pairs": len(finite),
        "accuracy": float(right.mean()) if len(finite) else None,
        "error": error if len(finite) else None,
        "bins": bins,
    }
