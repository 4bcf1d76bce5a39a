"""Metrics for rows with any number of classes, times 100, equal to scikit-learn's of indicators."""

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from t5x_like.text.metrics.classification import Scores, accuracy, require_pairs

LabelSets = Sequence[Sequence[str]]

# Axis over which the scores of each average are counted.
_AXES = {"micro": None, "macro": 0, "samples": 1}


@functools.cache
def label_set_metrics(classes: tuple[str, ...]) -> Mapping[str, Callable[[LabelSets, LabelSets], Scores]]:
    """Return metrics by their names in configurations.

    ``accuracy`` is the share of rows whose classes are all right. An undefined score, such as the F1 of a row without a
    true and a predicted class, is 0.

    Args:
      classes: Names of all classes.
    """
    class_numbers = {name: index for index, name in enumerate(classes)}

    def indicators(rows: LabelSets) -> np.ndarray:
        indicator = np.zeros((len(rows), len(classes)), np.int64)
        for row, names in enumerate(rows):
            indicator[row, [class_numbers[name] for name in names]] = 1
        return indicator

    def f1(average: str) -> Callable[[LabelSets, LabelSets], Scores]:
        def metric(targets: LabelSets, predictions: LabelSets) -> Scores:
            require_pairs(targets, predictions)
            truth, guess = indicators(targets), indicators(predictions)
            right, all_of_both = (each.sum(axis=_AXES[average]) for each in (truth & guess, truth + guess))
            return {metric.__name__: _mean_share(2 * right, all_of_both)}

        metric.__name__ = f"{average}_f1"
        return metric

    def samples_jaccard(targets: LabelSets, predictions: LabelSets) -> Scores:
        require_pairs(targets, predictions)
        truth, guess = indicators(targets), indicators(predictions)
        return {"samples_jaccard": _mean_share((truth & guess).sum(axis=1), (truth | guess).sum(axis=1))}

    averaged = {f"{average}_f1": f1(average) for average in _AXES}
    return {**averaged, "samples_jaccard": samples_jaccard, "accuracy": accuracy}


def _mean_share(parts: np.ndarray, wholes: np.ndarray) -> float:
    return 100.0 * float(np.mean(parts / np.maximum(wholes, 1)))
