"""Metrics by their names in configurations, as seqio metric functions on decoded text; also those of users."""

import difflib
import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from t5x_like.configuration_names import check_recordable, is_call_by_keywords, name_of
from t5x_like.nested_values import one_or_several
from t5x_like.text.metrics import (
    classification,
    correlation,
    generation_metrics,
    question_answering,
    speech_metrics,
)
from t5x_like.text.metrics.classification import Scores, require_as_many
from t5x_like.value_types import fits

MetricFunction = Callable[[Sequence, Sequence], Scores]

_OF_TEXT: dict[str, MetricFunction] = {
    "accuracy": classification.accuracy,
    "sequence_accuracy": generation_metrics.sequence_accuracy,
    "token_error_rate": generation_metrics.token_error_rate,
    "bleu": generation_metrics.bleu,
    "rouge": generation_metrics.rouge_mean,
    "squad": question_answering.squad,
    "trivia_qa": question_answering.trivia_qa,
    "wer": speech_metrics.word_error_rate,
    "cer": speech_metrics.character_error_rate,
}
_OF_SPEECH = ("wer", "cer")  # they need an extra
_OF_CLASSES = ("f1", "macro_f1", "matthews_corrcoef")
_OF_NUMBERS: dict[str, MetricFunction] = {
    "pearson_corrcoef": correlation.pearson_corrcoef,
    "spearman_corrcoef": correlation.spearman_corrcoef,
}
# Text outputs need not have a tag for each word, and are no sets of classes.
_OF_HEADS = {
    "chunk_f1": "heads that classify tokens; text outputs have no tags",
    **dict.fromkeys(
        ("micro_f1", "samples_f1", "samples_jaccard"),
        "heads with several labels of a row, such as MultiLabelClassification",
    ),
}
METRIC_NAMES = (*_OF_TEXT, *_OF_CLASSES, *_OF_NUMBERS)


def _of_equal_reference(metric: MetricFunction, references: Sequence[list[str]], guesses: Sequence) -> Scores:
    require_as_many(references, guesses)
    pairs = zip(references, guesses, strict=True)
    return metric([guess if guess in texts else texts[0] for texts, guess in pairs], guesses)


def _of_streams(metric: MetricFunction, references: Sequence[list[str]], guesses: Sequence) -> Scores:
    """Give sacreBLEU the first references of all rows, then the second ones; ``None`` where a row has fewer."""
    require_as_many(references, guesses)
    return metric(list(zip_longest(*references)), guesses) if references else metric([], guesses)


def _of_lists(metric: MetricFunction, references: Sequence[list[str]], guesses: Sequence) -> Scores:
    return metric(references, guesses)


# Metrics that compare with several references of a row.
_OF_REFERENCES = {
    "accuracy": _of_equal_reference,
    "sequence_accuracy": _of_equal_reference,
    "bleu": _of_streams,
    "rouge": _of_lists,
    "squad": _of_lists,
    "trivia_qa": _of_lists,
}
OF_REFERENCES = tuple(_OF_REFERENCES)

# Metrics for which lower is better.
LOWER_IS_BETTER = frozenset({"token_error_rate", *_OF_SPEECH})


def class_metrics(num_classes: int) -> dict[str, MetricFunction]:
    """Return the metrics of class numbers by name."""
    metrics: dict[str, MetricFunction] = {
        "accuracy": classification.accuracy,
        "sequence_accuracy": generation_metrics.sequence_accuracy,
        "macro_f1": classification.mean_multiclass_f1(num_classes),
        "matthews_corrcoef": classification.matthews_corrcoef,
    }
    return metrics | ({"f1": classification.f1_score_with_invalid} if num_classes == 2 else {})


def number_metrics() -> dict[str, MetricFunction]:
    """Return the metrics of numbers by name."""
    return dict(_OF_NUMBERS)


def is_of_heads(name: str | MetricFunction) -> bool:
    """Return whether only heads have a metric; texts that are written have none like it."""
    return isinstance(name, str) and name in _OF_HEADS


def check_metric(name: str | MetricFunction, classes: Sequence[str] = (), *, for_head: bool = False) -> None:
    """Check that a metric exists and has the classes it needs, or that a run's record can name a user's metric.

    Args:
      name: Name of the metric, or a function.
      classes: Label words in the order of class ids.
      for_head: Whether metrics of heads alone are allowed.

    Raises:
      ValueError: The name is unknown, classes or a library are missing, or the function has no name of its own.
    """
    if not isinstance(name, str):
        check_recordable(name, "metric")
        return
    if name in _OF_HEADS:
        if for_head:
            return
        raise ValueError(f"metric {name!r} is for {_OF_HEADS[name]}")
    if name not in METRIC_NAMES:
        names = (*METRIC_NAMES, *_OF_HEADS)
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"no metric {name!r}; {hint}There are {', '.join(names)}")
    if name in _OF_SPEECH:
        speech_metrics.require_jiwer()
    if name in _OF_CLASSES and len(classes) < 2:
        raise ValueError(f"metric {name!r} needs the classes: give label_words, or labels=('no', 'yes')")
    if name == "f1" and len(classes) != 2:
        raise ValueError(
            f"metric 'f1' is for two classes, the second being positive; for {len(classes)} use 'macro_f1'"
        )


def metric_function(name: str | MetricFunction, classes: Sequence[str] = ()) -> MetricFunction:
    """Return a metric as a function of decoded targets and predictions.

    Args:
      name: Name of the metric, or a function.
      classes: Label words in the order of class ids. Other words count as invalid, and text that is not a number as -1,
        as in T5.

    Raises:
      ValueError: The name is unknown, or classes are missing.
    """
    check_metric(name, classes)
    if not isinstance(name, str):
        return users_metric(name)
    indices = {word: index for index, word in enumerate(classes)}
    if name in _OF_CLASSES:
        return _reading(name, class_metrics(len(classes))[name], lambda text: indices.get(text, -1))
    if name in _OF_NUMBERS:
        return _reading(name, _OF_NUMBERS[name], _number)
    return _reading(name, _OF_TEXT[name], lambda text: text)


def users_metric(function: MetricFunction) -> MetricFunction:
    """Return a metric that calls a user's function and checks its scores.

    Args:
      function: Function of targets and predictions, under any names of its parameters, that returns scores by name.
    """
    target = function.func if is_call_by_keywords(function) else function
    name = name_of(target if hasattr(target, "__qualname__") else type(target)).replace(":", ".")

    def metric(targets: Sequence, predictions: Sequence) -> Scores:
        scores = function(targets, predictions)
        if not fits(scores, dict[str, Any]) or not all(
            hasattr(score, "__float__") for score in scores.values()
        ):
            raise ValueError(
                f"metric {name} returned {scores!r}; return numbers by name: {{'my_score': 50.0}}"
            )
        return {key: float(score) for key, score in scores.items()}

    metric.__name__ = name
    return metric


def _reading(name: str, function: MetricFunction, read: Callable) -> MetricFunction:
    def metric(targets: Sequence, predictions: Sequence) -> Scores:
        has_references = any(isinstance(target, list) for target in targets)
        if has_references and name not in OF_REFERENCES:
            raise ValueError(
                f"metric {name!r} compares with one target, and rows have several references; choose from "
                f"{', '.join(OF_REFERENCES)}"
            )
        guesses = [read(text) for text in predictions]
        if not has_references:
            return function([read(target) for target in targets], guesses)
        references = [list(one_or_several(target)) for target in targets]
        return _OF_REFERENCES[name](function, references, guesses)

    metric.__name__ = name
    return metric


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return -1.0
    return value if math.isfinite(value) else -1.0
