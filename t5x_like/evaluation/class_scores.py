"""Confusion matrix, and precision, recall and F1 of each class, from the rows of ``predictions.jsonl``."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from t5x_like.evaluation.scores_file import Row
from t5x_like.value_types import fits

_MOST_CLASSES = 100  # whose matrix has 10,000 numbers
NOT_A_CLASS = "none of these"


def class_scores(classes: Sequence[str], rows: Sequence[Row], *, are_sets: bool = False) -> dict[str, object]:
    """Return the fields ``classes`` and ``confusion`` of a task's entry in ``scores.json``.

    A row counts if its target is known, and a row of tagged words counts once for each word. Scores are times 100, and
    0 where they are undefined.

    Args:
      classes: Names of the classes; empty for open answers.
      rows: Rows of ``predictions.jsonl``.
      are_sets: Whether a row has any number of classes.

    Returns:
      ``classes``: ``precision``, ``recall``, ``f1`` and ``rows`` by class. ``confusion``: ``predicted`` names the
      columns, and ``counts`` has a list for each true class; absent if there are more than 100 classes, or rows have
      several. Nothing for open answers or without targets.
    """
    if are_sets:
        return _scores_of_sets(classes, rows)
    counts = Counter(_pairs(set(classes), rows))
    if len(classes) < 2 or not counts:
        return {}
    true, predicted = Counter[str](), Counter[str]()
    for (target, prediction), count in counts.items():
        true[target] += count
        predicted[prediction] += count
    right = Counter({name: counts[name, name] for name in classes})
    entry: dict[str, Any] = {"classes": _by_class(classes, right, true, predicted)}
    if len(classes) <= _MOST_CLASSES:
        columns = [*classes, *([NOT_A_CLASS] if predicted[NOT_A_CLASS] else [])]
        entry["confusion"] = {
            "predicted": columns,
            "counts": [[counts[name, column] for column in columns] for name in classes],
        }
    return entry


def _scores_of_sets(classes: Sequence[str], rows: Sequence[Row]) -> dict[str, object]:
    """Return ``classes`` for rows with lists of them; nothing without targets."""
    labeled = [row for row in rows if row.get("target") is not None]
    if not labeled:
        return {}
    true, predicted = (
        Counter(name for row in labeled for name in row[column]) for column in ("target", "prediction")
    )
    right = Counter(name for row in labeled for name in {*row["target"]} & {*row["prediction"]})
    return {"classes": _by_class(classes, right, true, predicted)}


def _by_class(
    classes: Sequence[str], right: Counter[str], true: Counter[str], predicted: Counter[str]
) -> dict[str, object]:
    return {
        name: {
            "precision": _percent(right[name], predicted[name]),
            "recall": _percent(right[name], true[name]),
            "f1": _percent(2 * right[name], true[name] + predicted[name]),
            "rows": true[name],
        }
        for name in classes
    }


def _pairs(classes: set[str], rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield the true and the predicted class of each row or word."""
    for row in rows:
        target, prediction = row.get("target"), row["prediction"]
        if target is None:
            continue
        is_tagged = fits([target, prediction], list[list])
        for true, guess in zip(target, prediction, strict=True) if is_tagged else [(target, prediction)]:
            if true is None:  # a word without a label
                continue
            yield str(true), guess if isinstance(guess, str) and guess in classes else NOT_A_CLASS


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
