"""T5's postprocessors under their original names (https://github.com/google-research/text-to-text-transfer-transformer).

Each converts the text of a target or a prediction to the value that metrics compare. ``example`` has the features of
the task's preprocessing. ``is_target`` is True for targets, whose features may hold more than their text. Invalid
predictions become -1, which no metric counts as correct.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from t5x_like.text.cells import as_text

Example = Mapping[str, Any]
Postprocess = Callable[..., Any]  # (text, example=None, is_target=False) -> what metrics compare

# Determiners, which don't affect the correctness of an answer.
_DETERMINERS = frozenset([
    "a", "an", "few", "her", "his", "each", "every", "many", "much", "my", "our",
    "some", "that", "the", "their", "these", "this", "those", "which", "whose", "your",
])  # fmt: skip
_MULTIRC_ANSWERS = ("False", "True")


def lower_text(text: str, **unused: object) -> str:
    """Return the text in lower case.

    Args:
      text: Text to change.
      **unused: Row and role of the text, which make no difference.
    """
    del unused
    return text.lower()


def string_to_float(text: str, default: float = -1.0, **unused: object) -> float:
    """Return the number that a text represents.

    Args:
      text: Text to read.
      default: Result for a text that is no number.
      **unused: Row and role of the text, which make no difference.
    """
    del unused
    try:
        return float(text)
    except ValueError:
        return default


def string_label_to_class_id(
    text: str, label_classes: Sequence[str], default: int = -1, **unused: object
) -> int:
    """Return the index of a label, which must match exactly.

    Args:
      text: Text to read.
      label_classes: Class names in the order of class ids.
      default: Result for other texts.
      **unused: Row and role of the text, which make no difference.
    """
    del unused
    return label_classes.index(text) if text in label_classes else default


def multirc(text: str, example: Example | None = None, is_target: bool = False) -> dict[str, Any]:
    """Return the class of one answer as ``value`` 0 or 1; for targets also its question as ``group``.

    Args:
      text: Generated or true answer.
      example: Row of the text.
      is_target: The text is the true one.
    """
    answer: dict[str, Any] = {"value": string_label_to_class_id(text, _MULTIRC_ANSWERS)}
    if is_target:
        answer["group"] = _plain(_of(example, "idx/question"))
    return answer


def record(text: str, example: Example | None = None, is_target: bool = False) -> dict[str, Any]:
    """Return the text as ``value``; for targets all correct answers, and the query as ``group``.

    Args:
      text: Generated or true answer.
      example: Row of the text.
      is_target: The text is the true one.
    """
    if not is_target:
        return {"value": text}
    group = tuple(_plain(_of(example, name)) for name in ("idx/passage", "idx/query"))
    return {"value": texts_of(_of(example, "answers")), "group": group}


def qa(text: str, example: Example | None = None, is_target: bool = False) -> str | list[str]:
    """Return the text; for targets all correct answers.

    Args:
      text: Generated or true answer.
      example: Row of the text.
      is_target: The text is the true one.
    """
    return texts_of(_of(example, "answers")) if is_target else text


def span_qa(text: str, example: Example | None = None, is_target: bool = False) -> str | dict[str, object]:
    """Return text such as ``start: 3 end: 5``; for targets the correct answers and the context.

    Args:
      text: Generated or true answer.
      example: Row of the text.
      is_target: The text is the true one.
    """
    if not is_target:
        return text
    return {"answers": texts_of(_of(example, "answers")), "context": texts_of([_of(example, "context")])[0]}


def wsc_simple(text: str, example: Example | None = None, is_target: bool = False) -> int:
    """Return 1 if an answer names the pronoun's referent, 0 if not, and -1 if it is empty; for targets the label.

    Determiners and case are ignored, as are missing or additional words, unless only one of both is a possessive
    (Raffel et al. 2020, §2.4: training rows have the correct referent as their target).

    Args:
      text: Generated or true answer.
      example: Row of the text.
      is_target: The text is the true one.
    """
    if is_target:
        return int(_of(example, "label"))
    referent = _content(texts_of([_of(example, "targets_pretokenized")])[0])
    answer = _content(texts_of([text])[0])
    if not answer:
        return -1
    if ("'" in answer) != ("'" in referent):
        return 0
    # Two spaces enclose an empty word, which counts as in T5.
    answered, meant = set(answer.split(" ")), set(referent.split(" "))
    return int(answered <= meant or meant <= answered)


def rank_classification(
    score: float,
    example: Example | None = None,
    is_target: bool = False,
    passthrough_feature_keys: Sequence[str] | None = None,
) -> float | tuple[object, ...]:
    """Return the score of an answer; for targets its index, correctness, weight and number of tokens.

    Args:
      score: Log-likelihood of the answer.
      example: Features of the task's preprocessing.
      is_target: Whether it is a target.
      passthrough_feature_keys: Further features to append for targets.
    """
    if not is_target:
        return score
    index, is_right, targets = (_of(example, name) for name in ("idx", "is_correct", "targets"))
    weight = example["weight"] if example and "weight" in example else 1.0
    others = (_of(example, name) for name in passthrough_feature_keys or ())
    return (tuple(index), is_right, weight, len(targets), *others)


def _content(text: str) -> str:
    return " ".join(word for word in text.strip().lower().split(" ") if word not in _DETERMINERS)


def _of(example: Example | None, name: str) -> Any:
    if example is None or name not in example:
        raise ValueError(f"the example of a target must have {name!r}, which its task's preprocessing gives")
    return example[name]


def texts_of(values: Any) -> list[str]:
    """Return texts, which seqio gives as bytes."""
    return [as_text(value) for value in values]


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value
