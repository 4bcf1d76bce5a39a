"""Metrics of answers ranked by their likelihood, and areas under curves of probabilities."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from t5x_like.text.metrics.classification import Scores, f1_of, require_pairs

# A row's index (the example, then the answer), True if it is right, its weight, and its target's tokens.
Ranked = tuple[Sequence[int], bool, float, int]


def sklearn_metrics_wrapper(
    metric_str: str,
    metric_dict_str: str | None = None,
    metric_post_process_fn: Callable[[Any], Any] | None = None,
    **metric_fn_kwargs: object,
) -> Callable[[Sequence[object], Sequence[object]], dict[str, object]]:
    """Make a metric from a function of ``sklearn.metrics``.

    >>> sklearn_metrics_wrapper("f1_score", "f1", lambda score: 100 * score)([1, 0], [1, 1])["f1"].round(1)
    66.7

    Args:
      metric_str: Name of the function.
      metric_dict_str: Name of the score; by default the function's.
      metric_post_process_fn: Applied to the score.
      **metric_fn_kwargs: Arguments of the function.

    Raises:
      ValueError: There is no such function.
    """
    import sklearn.metrics

    function = getattr(sklearn.metrics, metric_str, None)
    if function is None:
        raise ValueError(f"sklearn.metrics does not have: {metric_str}")

    def of_scikit_learn(targets: Sequence[object], predictions: Sequence[object]) -> dict[str, object]:
        score = function(targets, predictions, **metric_fn_kwargs)
        return {
            metric_dict_str or metric_str: metric_post_process_fn(score) if metric_post_process_fn else score
        }

    of_scikit_learn.__name__ = metric_dict_str or metric_str
    return of_scikit_learn


def auc(
    targets: Sequence[float], predictions: Sequence[float], targets_threshold: float | None = None
) -> Scores:
    """Compute the areas under the ROC and precision-recall curves, between 0 and 1.

    Args:
      targets: 0 or 1, or numbers to compare with ``targets_threshold``.
      predictions: Scores.
      targets_threshold: Targets of at least this count as 1.
    """
    import sklearn.metrics

    require_pairs(targets, predictions)
    truth = np.asarray(targets)
    if targets_threshold is not None:
        truth = (truth >= targets_threshold).astype(np.int32)
    return {
        "auc-roc": float(sklearn.metrics.roc_auc_score(truth, predictions)),
        "auc-pr": float(sklearn.metrics.average_precision_score(truth, predictions)),
    }


def score_auc(
    targets: Sequence[float], scores: Sequence[float], targets_threshold: float | None = None
) -> Scores:
    """Compute ``auc`` with the argument names of seqio's score metrics.

    Args:
      targets: 0 or 1, or numbers to compare with ``targets_threshold``.
      scores: Score of each target.
      targets_threshold: Targets of at least this count as 1.
    """
    return auc(targets, scores, targets_threshold)


def rank_classification(
    targets: Sequence[Ranked],
    scores: Sequence[float],
    num_classes: int | None = None,
    normalize_by_target_length: bool = False,
    idx_len: int = 2,
) -> Scores:
    """Score the most likely answers of multiple-choice examples.

    Two classes also have F1 and the areas under curves, more classes the mean F1 of the classes. If an example has
    several right answers, any of them counts, and only accuracy is computed.

    Args:
      targets: Rows of ``postprocessing.rank_classification``, one for each answer.
      scores: Log-likelihood of each answer.
      num_classes: Answers of each example; ``None`` if it varies, then only accuracy is computed.
      normalize_by_target_length: Divide log-likelihoods by the number of target tokens.
      idx_len: Numbers in a row's index.

    Raises:
      ValueError: Different numbers of rows and scores, rows of another form, examples without ``num_classes`` rows, or
        weights that are all 0.
    """
    require_pairs(targets, scores)
    if len(targets[0]) != 4:
        raise ValueError(
            f"targets must have 4 parts (index, is right, weight, length), not {len(targets[0])}"
        )
    index = targets[0][0]
    if np.ndim(index) != 1 or len(index) != idx_len:
        raise ValueError(f"the index of a target must have {idx_len} numbers, not be {index}")
    if not any(target[2] for target in targets):
        raise ValueError("the weights of all targets are 0; give at least one that counts")
    if normalize_by_target_length:
        scores = [score / target[3] for target, score in zip(targets, scores, strict=True)]
    rows = sorted(zip(targets, scores, strict=True), key=lambda row: tuple(row[0][0]))
    return _of_classes(rows, num_classes) if num_classes else _of_any_number(rows)


def _of_any_number(rows: Sequence[tuple[Ranked, float]]) -> Scores:
    right = total = 0.0
    for _, answers in itertools.groupby(rows, key=lambda row: row[0][0][0]):
        targets, scores = zip(*answers, strict=True)
        _, is_right, weight, _ = targets[int(np.argmax(scores))]
        right, total = right + is_right * weight, total + weight
    return {"accuracy": 100.0 * right / total}


def _of_classes(rows: Sequence[tuple[Ranked, float]], num_classes: int) -> Scores:
    if len(rows) % num_classes:
        raise ValueError(f"{len(rows)} answers are not {num_classes} for each example")
    table = functools.partial(np.reshape, shape=(-1, num_classes))
    truth = table([bool(target[1]) for target, _ in rows])
    weights = table([target[2] for target, _ in rows])[:, 0]
    likelihoods = table(np.array([score for _, score in rows], np.float32))
    chosen = likelihoods.argmax(-1)
    guess = np.eye(num_classes, dtype=bool)[chosen]
    if (truth.sum(-1) > 1).any():
        return {"accuracy": 100.0 * float(np.average((truth & guess).any(-1), weights=weights))}
    accuracy = {"accuracy": 100.0 * float(np.average((truth == guess).all(-1), weights=weights))}
    if num_classes > 2:
        each = [
            f1_of(truth[:, label], guess[:, label], sample_weight=weights) for label in range(num_classes)
        ]
        return accuracy | {f"mean_{num_classes}class_f1": 100.0 * float(np.mean(each))}
    return accuracy | _of_two(truth[:, 1], guess[:, 1], likelihoods, weights)


def _of_two(truth: np.ndarray, guess: np.ndarray, likelihoods: np.ndarray, weights: np.ndarray) -> Scores:
    import sklearn.metrics

    shares = np.exp(likelihoods - likelihoods.max(-1, keepdims=True))
    shares = (shares / shares.sum(-1, keepdims=True))[:, 1]
    return {
        "f1": 100.0 * f1_of(truth, guess, sample_weight=weights),
        "auc-roc": 100.0 * float(sklearn.metrics.roc_auc_score(truth, shares, sample_weight=weights)),
        "auc-pr": 100.0
        * float(sklearn.metrics.average_precision_score(truth, shares, sample_weight=weights)),
    }
