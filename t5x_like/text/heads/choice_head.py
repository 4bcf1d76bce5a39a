"""Heads that compare texts: multiple choice, and ranking of candidates."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from t5x_like.text.heads.head_answers import Answer, Head, Probabilities, rounded
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.input_format import EncoderInput
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.heads.row_cells import UNLABELED, as_text, class_of, column_of, columns_in, filled
from t5x_like.text.metrics import accuracy, sequence_accuracy, squad, trivia_qa
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.text.templates import RowValues


@dataclass(frozen=True, kw_only=True)
class MultipleChoice(HeadFormat):
    """One of several continuations of a context, or of several texts.

    Attributes:
      context: Template of the first text; without it, each choice is read alone.
      choices: Templates of the second texts, or the column with a list of them.
      label: Column with the number of the correct choice, -1 for unlabeled rows.
    """

    context: str = ""
    choices: tuple[str, ...] | str
    label: str = "label"

    has_choices: ClassVar[bool] = True
    label_loss: ClassVar[LabelLoss | None] = "multiple_choice"

    @property
    def head(self) -> Head:
        """Multiple-choice head with one output per choice; the number of labels has no meaning."""
        return Head("multiple_choice", 2)

    @property
    def _column(self) -> str | None:
        """Column that lists the choices; None where they are templates."""
        return self.choices if isinstance(self.choices, str) else None

    @property
    def usual_num_choices(self) -> int:
        """Number of choices; 4, as in RACE and SWAG, where a column lists them."""
        return len(self.choices) if self._column is None else 4

    def read(self, values: RowValues) -> LabeledRow:
        if self._column is None:
            choices = [filled(choice, values) for choice in self.choices]
        else:
            choices = [as_text(choice) for choice in column_of(values, self._column)]
        if len(choices) < 2:
            raise ValueError(f"{len(choices)} choices; a question has at least 2")
        context = filled(self.context, values)
        label = class_of(values, self.label, [str(index) for index in range(len(choices))])
        first = (context,) if self.context else ()
        return LabeledRow(texts=tuple((*first, choice) for choice in choices), label=label)

    @property
    def metrics_by_name(self) -> Mapping[str, MetricFunction]:
        """Metrics of choices, whose numbers are no classes: the order of choices means nothing."""
        return {"accuracy": accuracy, "sequence_accuracy": sequence_accuracy}

    @property
    def input_columns(self) -> tuple[str, ...]:
        if self._column is not None:
            return (*columns_in(self.context), self._column)
        return columns_in(self.context, *self.choices)

    def num_answers(self, num_choices: int) -> int:
        return num_choices


@dataclass(frozen=True, kw_only=True)
class CandidateRanking(HeadFormat):
    """The candidate that fills the gap of a question.

    Each candidate is put into the gap and classified as right or wrong. The prediction is the one with the highest
    odds of being right: SuperGLUE's baseline of ReCoRD (Wang et al. 2019, §4.1, arXiv:1905.00537).

    Attributes:
      context: Template of the first text.
      question: Template of the second text, with its gap.
      gap: String in the question that a candidate replaces.
      candidates: Column with a list of texts.
      answers: Column with the correct ones, any of which is accepted; empty for unlabeled rows.
    """

    context: str = "{passage}"
    question: str = "{query}"
    gap: str = "@placeholder"
    candidates: str = "entities"
    answers: str = "answers"

    label_parameters: ClassVar[tuple[str, ...]] = ("answers",)
    default_metrics: ClassVar[tuple[MetricFunction, ...]] = (squad,)

    @property
    def head(self) -> Head:
        """Sequence classification head with the labels wrong and right."""
        return Head("sequence_classification", 2)

    def read(self, values: RowValues) -> LabeledRow:
        candidates = tuple(dict.fromkeys(map(as_text, column_of(values, self.candidates))))
        if not candidates:
            raise ValueError(f"{self.candidates} is empty; there is nothing to choose from")
        context, question = filled(self.context, values), filled(self.question, values)
        if self.gap not in question:
            raise ValueError(f"the question {question!r} has no {self.gap} for the answer")
        answers = set(map(as_text, values.get(self.answers) or ()))
        return LabeledRow(
            texts=tuple((context, question.replace(self.gap, candidate)) for candidate in candidates),
            description=f"{question}\n{context}",
            candidates=candidates,
            rights=tuple(int(each in answers) if answers else UNLABELED for each in candidates),
        )

    def is_labeled(self, row: LabeledRow) -> bool:
        return any(right >= 0 for right in row.rights)

    def examples_of(
        self, row: LabeledRow, origin: int, inputs: list[EncoderInput]
    ) -> Iterable[LabeledExample]:
        return [
            LabeledExample((each,), origin, label=right)
            for each, right in zip(inputs, row.rights, strict=True)
        ]

    def answers_of(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
    ) -> list[Answer]:
        """Return the candidate of each row with the highest odds of being right; of equal ones the first."""
        del word_starts
        per_row = self._odds(rows, scores)
        return [row.candidates[int(np.argmax(each))] for row, each in zip(rows, per_row, strict=True)]

    @property
    def metrics_by_name(self) -> Mapping[str, MetricFunction]:
        return {"squad": squad, "trivia_qa": trivia_qa}

    def probabilities(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
        labels: Sequence[str],
    ) -> list[Probabilities]:
        """Return each candidate's probability of being right; they don't sum to 1."""
        del word_starts, labels
        probabilities = []
        for row, odds in zip(rows, self._odds(rows, scores), strict=True):
            shares = rounded(1 / (1 + np.exp(-np.float64(odds))))
            probabilities.append(Probabilities(max(shares), dict(zip(row.candidates, shares, strict=True))))
        return probabilities

    def _odds(self, rows: Sequence[LabeledRow], scores: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the logarithm of the odds of each row's candidates."""
        odds = np.array([row[1] - row[0] for row in scores])
        return np.split(odds, np.cumsum([len(row.candidates) for row in rows])[:-1])

    def most_frequent(self, rows: Sequence[LabeledRow]) -> None:
        """Return no baseline: candidates are of one row alone."""

    def written_example(
        self, format_row: Callable[[], Sequence[RowValues]], *, has_labels: bool
    ) -> RowValues | None:
        """Return the first example: there is one for each correct answer, and they differ only in that."""
        del has_labels
        return format_row()[0]

    def target(self, row: LabeledRow) -> list[str]:
        """Return the correct candidates."""
        return [text for text, right in zip(row.candidates, row.rights, strict=True) if right > 0]
