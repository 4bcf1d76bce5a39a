"""Rows for encoder heads: input texts and the label to predict (a class, number, span or token tags)."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from t5x_like.text.heads.input_format import EncoderInput, InputFormat
from t5x_like.text.metrics import accuracy
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.templates import RowValues, Template

UNLABELLED = -1

# As models and Hugging Face's classes call heads.
HeadKind = Literal["sequence_classification", "multiple_choice", "token_classification", "question_answering"]
Answer = int | float | str | list[int]  # a class or choice, a number, a text, a class for each word


class Head(NamedTuple):
    """The kind of a model's head and its number of labels."""

    kind: HeadKind
    num_labels: int


class HeadRow(NamedTuple):
    """A row as a head reads it; each head format fills its own fields.

    Attributes:
      texts: One text or two; of multiple choice and candidates for each of them.
      label: A class, or the number of the right choice.
      value: The number that a regression predicts.
      answers: Spans of the second text, in characters; None where unlabeled.
      words: The words that token classes belong to.
      tags: A class for each word.
      question: A question with its gap.
      candidates: The texts that may fill the gap.
      rights: 1 for each right candidate, 0 for a wrong one, -1 where unlabeled.
    """

    texts: tuple[tuple[str, ...], ...]
    label: int = UNLABELLED
    value: float = math.nan
    answers: tuple[tuple[int, int], ...] | None = None
    words: tuple[str, ...] = ()
    tags: tuple[int, ...] = ()
    question: str = ""
    candidates: tuple[str, ...] = ()
    rights: tuple[int, ...] = ()

    @property
    def input_text(self) -> str:
        """The texts for people to read."""
        if self.words:
            return " ".join(self.words)
        if self.question:
            return f"{self.question}\n{self.texts[0][0]}"
        return "\n".join(dict.fromkeys(text for texts in self.texts for text in texts))


class HeadExample(NamedTuple):
    """One tokenized example: a row of an encoder, or one for each choice.

    Attributes:
      rows: The encoder's rows.
      origin: Number of the task's row. A long context, or candidates, make several examples of one.
      label: See ``HeadRow``.
      value: See ``HeadRow``.
      span: First and last token of the answer.
      classes: int32 [L], -1 where a token has none.
      starts: int32, the first character of each token of the context.
      ends: int32, the character after each token of the context.
      offset: Where a window begins among the context's tokens.
    """

    rows: tuple[EncoderInput, ...]
    origin: int
    label: int = UNLABELLED
    value: float = math.nan
    span: tuple[int, int] = (-1, -1)
    classes: np.ndarray | None = None
    starts: np.ndarray | None = None
    ends: np.ndarray | None = None
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class HeadFormat(ABC):
    """Reads rows for one kind of head, encodes them, and turns the head's scores into answers.

    ``texts``, ``context`` and other fields of subclasses are templates over the row's columns, such as ``"{premise}"``:
    one text is read alone, two as a pair.
    """

    has_choices: ClassVar[bool] = False  # an example is a row for each choice
    predicts_number: ClassVar[bool] = False
    tags_tokens: ClassVar[bool] = False  # labels belong to tokens
    label_fields: ClassVar[tuple[str, ...]] = ("label",)  # of ``Example``
    default_metrics: ClassVar[tuple[MetricFunction, ...]] = (accuracy,)  # of tasks that name none

    @property
    @abstractmethod
    def head(self) -> Head:
        """The head that reads it (Devlin et al. 2019, §4, https://arxiv.org/abs/1810.04805)."""

    @property
    def num_outputs(self) -> int:
        """Number of scores that the model's head gives."""
        return 1 if self.has_choices else self.head.num_labels

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes in the order of the head's scores; none where it doesn't tell classes."""
        return ()

    @abstractmethod
    def read(self, values: RowValues) -> HeadRow:
        """Returns a row as the head reads it.

        Raises:
          ValueError: a missing column, a label that is none, an answer that the context doesn't have.
        """

    def is_labeled(self, row: HeadRow) -> bool:
        """Returns True if the row has a label to learn from or to compare with."""
        return row.label >= 0

    def encode(
        self, rows: Sequence[HeadRow], first: int, tokenizer: Any, input_format: InputFormat, *, stride: int
    ) -> Iterator[HeadExample]:
        """Yields the examples of rows, numbered from ``first``; windows of a context are ``stride`` tokens apart."""
        del stride
        # A context that many choices or candidates share is tokenized once.
        unique = list(dict.fromkeys(text for row in rows for texts in row.texts for text in texts))
        encoded = dict(zip(unique, tokenizer.encode_all(unique), strict=True))
        for origin, row in enumerate(rows, start=first):
            yield from self._examples(
                row, origin, [input_format.join([encoded[text] for text in texts]) for texts in row.texts]
            )

    def _examples(self, row: HeadRow, origin: int, inputs: list[EncoderInput]) -> Iterable[HeadExample]:
        return [HeadExample(tuple(inputs), origin, label=row.label, value=row.value)]

    def spec(self, num_choices: int = 0) -> ExampleSpec:
        """Returns what a loader must know of the examples."""
        return ExampleSpec(
            layout="encoder",
            fields=("token_types", "weights", *self.label_fields),
            fills_rows=True,
            num_choices=num_choices,
            head=self.head,
        )

    def answers_of(
        self,
        rows: Sequence[HeadRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
    ) -> list[Answer]:
        """Returns the answer to each row.

        Args:
          rows: The task's rows.
          scores: The head's scores of each example.
          word_starts: The tokens with which the words of an example begin, by its number.
        """
        del rows, word_starts
        return [int(np.argmax(row)) for row in scores]

    def metrics(self, given: Sequence[MetricFunction]) -> Sequence[MetricFunction]:
        """Returns the metrics of answers: those ``given`` by the task, if there are any."""
        return given or self.default_metrics

    def most_frequent(self, rows: Sequence[HeadRow]) -> Answer | None:
        """Returns the most frequent label of labeled rows, a baseline; ``None`` where none is most frequent."""
        return Counter(row.label for row in rows).most_common(1)[0][0]

    def num_answers(self, num_choices: int) -> int:
        """Returns the number of answers there can be, 0 where they are open."""
        del num_choices
        return 0

    def written_example(
        self, worded: Callable[[], Sequence[RowValues]], *, has_labels: bool
    ) -> RowValues | None:
        """Returns the text-to-text example with the same answer as the row; ``None`` if there is none.

        Args:
          worded: Returns the text-to-text examples of the row.
          has_labels: The task's written answers are this head's classes or choices.
        """
        found = worded() if has_labels else ()
        return found[0] if len(found) == 1 else None

    def target(self, row: HeadRow) -> Any:
        """Returns the true answer as metrics compare it."""
        return row.label

    def written(self, answer: Answer, labels: Sequence[str]) -> Any:
        """Returns an answer in the words of the task, whose answers are ``labels`` where there are so many."""
        return labels[answer] if labels and isinstance(answer, int) else answer

    def written_target(self, row: HeadRow, labels: Sequence[str]) -> Any:
        """Returns the true answer in the words of the task; see ``written``."""
        return self.written(self.target(row), labels)


def filled(template: str, values: RowValues) -> str:
    """Returns a template with a row's columns in it.

    Raises:
      ValueError: a column is missing.
    """
    parsed = Template(template)
    missing = parsed.missing(values)
    if missing:
        raise ValueError(missing)
    return parsed.fill({name: as_text(values[name]) for name in parsed.fields})


def as_text(value: Any) -> str:
    """Returns a cell as text."""
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def column_of(values: RowValues, name: str) -> Any:
    """Returns a cell.

    Raises:
      ValueError: there is no such column.
    """
    if name not in values:
        raise ValueError(f"no column {name!r}; the columns are {', '.join(values) or 'none'}")
    return values[name]


def class_of(values: RowValues, column: str, classes: Sequence[str]) -> int:
    """Returns the number of a row's class, -1 where it has none.

    Raises:
      ValueError: the class is none of ``classes``.
    """
    return class_number(values[column], classes, column) if column in values else UNLABELLED


def class_number(given: Any, classes: Sequence[str], column: str) -> int:
    """Returns a class' number from itself, or from its word as users' files have it.

    Raises:
      ValueError: it is none of ``classes``.
    """
    if isinstance(given, bytes | str):
        word = as_text(given).strip()
        if word in classes:
            return classes.index(word)
        if not word.removeprefix("-").isdigit():
            raise ValueError(f"{column} is {word!r}; it is one of {', '.join(classes)}")
        given = word
    number = int(given)
    if not UNLABELLED <= number < len(classes):
        raise ValueError(
            f"{column} is {number}; it is 0 … {len(classes) - 1} ({', '.join(classes)}), or -1 where unlabeled"
        )
    return number
