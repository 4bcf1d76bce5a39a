"""Kinds of heads, and their answers: the scale and probabilities of outputs."""

from typing import Literal, NamedTuple

import numpy as np

# Names as in Hugging Face's classes. The last two are models without a head, whose vectors are compared.
HeadKind = Literal[
    "sequence_classification",
    "multiple_choice",
    "token_classification",
    "question_answering",
    "cloze",
    "encoding",
    "base",
]
# A class or choice, a number, a text, a class for each word, or any number of classes.
Answer = int | float | str | list[int]
# An answer with its classes by their names.
Written = Answer | list[str]


class Head(NamedTuple):
    """Head of a model.

    Attributes:
      kind: Type of the head.
      num_labels: Number of labels.
      problem_type: "multi_label" if a row has any number of the labels; otherwise None.
    """

    kind: HeadKind
    num_labels: int
    problem_type: Literal["multi_label"] | None = None


class OutputScale(NamedTuple):
    """Scale of a head's outputs: a predicted number is ``output * deviation + mean``.

    Attributes:
      mean: Number that is added.
      deviation: Number by which outputs are multiplied before.
    """

    mean: float = 0.0
    deviation: float = 1.0


UNSCALED = OutputScale()


class Probabilities(NamedTuple):
    """Probabilities of a row's prediction.

    Attributes:
      predicted: That of the predicted class; a list for a prediction of several classes or words.
      by_class: That of each class by name; a list for words, in their order.
    """

    predicted: float | list[float]
    by_class: dict[str, float] | list[dict[str, float]]


def softmax(scores: np.ndarray) -> list[float]:
    """Return the probabilities of classes by their scores [C], to six places."""
    shares = np.exp(np.float64(scores) - np.max(scores))
    return rounded(shares / shares.sum())


def rounded(shares: np.ndarray) -> list[float]:
    """Return probabilities to six places."""
    return [round(share, 6) for share in shares.tolist()]
