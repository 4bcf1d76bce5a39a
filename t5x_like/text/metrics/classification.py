"""Metrics for class predictions, times 100 as T5 reports them. Classes are numbers; -1 is an invalid prediction."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np

Scores = dict[str, float]
Metric = Callable[[Sequence[Any], Sequence[Any]], Scores]


_OVER_GROUPS: WeakSet[Metric] = WeakSet()
MetricT = TypeVar("MetricT", bound=Metric)


def over_groups(metric: MetricT) -> MetricT:
    """Mark a metric that compares groups of rows, of which an evaluation of a sample reads whole ones."""
    _OVER_GROUPS.add(metric)
    return metric


def is_over_groups(metric: Metric) -> bool:
    """Return True for a metric that ``over_groups`` has marked."""
    return metric in _OVER_GROUPS


def accuracy(targets: Sequence[object], predictions: Sequence[object]) -> Scores:
    """Compute the share of predictions that equal their target, of any type; arrays as a whole.

    Args:
      targets: True values.
      predictions: One value for each target.
    """
    require_pairs(targets, predictions)
    equal = [
        bool(np.all(target == prediction)) for target, prediction in zip(targets, predictions, strict=True)
    ]
    return {"accuracy": 100.0 * float(np.mean(equal))}


def f1_score_with_invalid(targets: Sequence[int], predictions: Sequence[int]) -> Scores:
    """Compute the F1 of class 1 among classes 0 and 1. An invalid prediction counts as the wrong class.

    Args:
      targets: True class ids, 0 or 1.
      predictions: Predicted class ids; -1 for an answer that is no class.
    """
    require_pairs(targets, predictions)
    truth, guess = np.asarray(targets), np.asarray(predictions)
    guess = np.where((guess == 0) | (guess == 1), guess, 1 - truth)
    return {"f1": 100.0 * f1_of(truth == 1, guess == 1)}


def f1_of(truth: object, guess: object, **settings: object) -> float:
    """Compute F1 with scikit-learn, 0 to 1.

    Args:
      truth: True classes.
      guess: Predicted classes.
      **settings: Arguments of ``sklearn.metrics.f1_score``; by default the F1 of an absent class is 0.
    """
    import sklearn.metrics  # takes seconds to import

    return float(sklearn.metrics.f1_score(truth, guess, **{"zero_division": 0.0, **settings}))


def mean_multiclass_f1(
    num_classes: int, *, sample_weight: Sequence[float] | None = None, zero_division: float | str = 0.0
) -> Metric:
    """Make a metric: the mean F1 of all classes, present or not (CommitmentBank's ``mean_3class_f1``).

    Args:
      num_classes: Number of classes.
      sample_weight: Weight of each row.
      zero_division: F1 of an absent class; NaN leaves the class out, "warn" means 0.
    """
    absent = 0.0 if zero_division == "warn" else float(zero_division)

    def mean_class_f1(targets: Sequence[int], predictions: Sequence[int]) -> Scores:
        require_pairs(targets, predictions)
        settings = {"labels": range(num_classes), "sample_weight": sample_weight, "zero_division": absent}
        mean = f1_of(targets, predictions, average="macro", **settings)
        return {f"mean_{num_classes}class_f1": 100.0 * mean}

    mean_class_f1.__name__ = f"mean_multiclass_f1({num_classes})"
    return mean_class_f1


def micro_f1_without(negative_class: int) -> Metric:
    """Make a metric: F1 over all rows for classes other than one, as TACRED's scorer computes it for relations.

    Precision is over predictions of other classes, recall over targets of other classes (Zhang et al. 2017).

    Args:
      negative_class: The class that doesn't count, such as ``no_relation``.
    """

    def micro_f1(targets: Sequence[int], predictions: Sequence[int]) -> Scores:
        require_pairs(targets, predictions)
        truth, guess = np.asarray(targets), np.asarray(predictions)
        wanted, predicted = truth != negative_class, guess != negative_class
        num_right = int(np.sum((truth == guess) & wanted))
        precision = num_right / max(int(predicted.sum()), 1)
        recall = num_right / max(int(wanted.sum()), 1)
        f1 = 2 * precision * recall / (precision + recall) if num_right else 0.0
        return {"f1": 100.0 * f1, "precision": 100.0 * precision, "recall": 100.0 * recall}

    micro_f1.__name__ = f"micro_f1_without({negative_class})"
    return micro_f1


def matthews_corrcoef(targets: Sequence[int], predictions: Sequence[int]) -> Scores:
    """Compute Matthews' correlation for any number of classes; 0 if one side is constant.

    An invalid prediction is a class of its own.

    Args:
      targets: True class ids.
      predictions: Predicted class ids; -1 for an answer that is no class.
    """
    import sklearn.metrics  # takes seconds to import

    require_pairs(targets, predictions)
    if len({*targets, *predictions}) < 2:  # scikit-learn warns of a single class
        return {"matthews_corrcoef": 0.0}
    return {"matthews_corrcoef": 100.0 * float(sklearn.metrics.matthews_corrcoef(targets, predictions))}


def multirc_f1_over_all_answers(targets: Sequence[Mapping], predictions: Sequence[Mapping]) -> Scores:
    """Compute MultiRC's F1a over all answers of all questions. Rows are ``{"value": class, "group": …}``.

    Args:
      targets: True class of each answer and its question.
      predictions: Predicted class of each answer and its question.
    """
    return f1_score_with_invalid([row["value"] for row in targets], [row["value"] for row in predictions])


def all_match(targets: Sequence[Any], predictions: Sequence[Any]) -> Scores:
    """Return 100 if every prediction equals its target, else 0; also 0 for different numbers of rows.

    They are compared as NumPy arrays, as in T5. Rows of different lengths form no array and match nothing.

    Args:
      targets: True values.
      predictions: Predicted values.
    """
    return {"exact_match": 100.0 * bool(np.array_equal(targets, predictions))}


def mean_group_metric(
    metric_fn: Metric,
    group_key: str = "group",
    value_key: str = "value",
    return_subgroup_scores: bool = False,
) -> Metric:
    """Make a metric: the mean over groups of ``metric_fn`` on each group's rows.

    MultiRC's exact match is that of ``all_match``: questions with right predictions for every answer.

    Args:
      metric_fn: Metric for the rows of a group.
      group_key: Name of the group in a row.
      value_key: Name of the value in a row.
      return_subgroup_scores: Also return each group's own scores, as ``7-exact_match`` for group 7.
    """

    def mean_over_groups(targets: Sequence[Mapping], predictions: Sequence[Mapping]) -> Scores:
        each: dict[str, list[float]] = {}
        for group, values in _by_group(targets, predictions, group_key, value_key).items():
            for name, score in metric_fn(*values).items():
                each.setdefault(name, []).append(score)
                if return_subgroup_scores:
                    each.setdefault(f"{group}-{name}", []).append(score)
        return {name: float(np.mean(scores)) for name, scores in each.items()}

    mean_over_groups.__name__ = f"mean_group_metric({_name_of(metric_fn)})"
    return over_groups(mean_over_groups)


def deduplicate_metric(metric_fn: Metric, group_key: str = "group", value_key: str = "value") -> Metric:
    """Make a metric: ``metric_fn`` over the first row of each group (ReCoRD repeats a query once per answer).

    Args:
      metric_fn: Metric for the first rows.
      group_key: Name of the group in a row.
      value_key: Name of the value in a row.
    """

    def over_first_rows(targets: Sequence[Mapping], predictions: Sequence[Mapping]) -> Scores:
        groups = _by_group(targets, predictions, group_key, value_key).values()
        return metric_fn([truth[0] for truth, _ in groups], [guess[0] for _, guess in groups])

    over_first_rows.__name__ = f"deduplicate_metric({_name_of(metric_fn)})"
    return over_groups(over_first_rows)


def _name_of(metric_fn: Metric) -> str:
    return getattr(metric_fn, "__name__", type(metric_fn).__name__)


def _by_group(
    targets: Sequence[Mapping], predictions: Sequence[Mapping], group_key: str, value_key: str
) -> dict[object, tuple[list[object], list[object]]]:
    """Collect targets and predictions of each group, groups in the order of their first rows."""
    require_as_many(targets, predictions)
    groups: dict[Any, tuple[list[Any], list[Any]]] = {}
    for target, prediction in zip(targets, predictions, strict=True):
        truth, guess = groups.setdefault(_hashable(target[group_key]), ([], []))
        truth.append(target[value_key])
        guess.append(prediction[value_key])
    return groups


def _hashable(group: object) -> object:
    return tuple(_hashable(part) for part in group) if isinstance(group, (list, tuple, np.ndarray)) else group


def require_as_many(targets: Sequence[object], predictions: Sequence[object]) -> None:
    """Check that there is one prediction for each target.

    Args:
      targets: True values.
      predictions: Predicted values.

    Raises:
      ValueError: Their numbers differ.
    """
    if len(targets) != len(predictions):
        raise ValueError(
            f"{len(predictions)} predictions for {len(targets)} targets; there must be one for each"
        )


def require_pairs(targets: Sequence[object], predictions: Sequence[object]) -> None:
    """Check that there is one prediction for each target, and at least one.

    Args:
      targets: True values.
      predictions: Predicted values.

    Raises:
      ValueError: Their numbers differ, or are 0.
    """
    require_as_many(targets, predictions)
    if len(targets) == 0:
        raise ValueError("no examples to score")


def mean_score(values: Sequence[float]) -> float:
    """Return the mean times 100, or NaN if there are no values, as in T5."""
    return 100.0 * float(np.mean(values)) if len(values) else float("nan")
