"""Heads that give each answer to a prompt a number, its reward."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from t5x_like.text.heads.head_answers import Answer, Head
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.input_format import EncoderInput
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.heads.row_cells import as_text, column_of, filled
from t5x_like.text.metrics import accuracy
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.metrics.calibration import pair_calibration
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.text.templates import RowValues


@dataclass(frozen=True, kw_only=True)
class RankedAnswers(HeadFormat):
    """Answers to a prompt, from the best to the worst, each read after the prompt and given one number.

    The prediction is the answer with the highest number. Among equal numbers it is the worst answer, so that a model
    without any preference is never right.

    Attributes:
      prompt: Template of the first text.
      answers: Column with the list of answers.
      max_answers: Highest number of answers; empty rows fill an example up.
    """

    prompt: str = "{inputs}"
    answers: str = "answers"
    max_answers: int = 2

    has_choices: ClassVar[bool] = True
    label_loss: ClassVar[LabelLoss | None] = None
    label_parameters: ClassVar[tuple[str, ...]] = ()
    baseline_name: ClassVar[str] = "the longer answer"

    @property
    def head(self) -> Head:
        """Sequence classification head with one output."""
        return Head("sequence_classification", 1)

    @property
    def usual_num_choices(self) -> int:
        return self.max_answers

    def read(self, values: RowValues) -> LabeledRow:
        prompt = filled(self.prompt, values)
        answers = [as_text(answer) for answer in column_of(values, self.answers)]
        return LabeledRow(texts=tuple((prompt, answer) for answer in answers), label=0)

    def examples_of(
        self, row: LabeledRow, origin: int, inputs: list[EncoderInput]
    ) -> Iterable[LabeledExample]:
        nothing = EncoderInput(np.zeros(0, np.int32), 0, 0)
        filled_up = (*inputs, *[nothing] * (self.max_answers - len(inputs)))
        return [LabeledExample(filled_up, origin, label=row.label)]

    def answers_of(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
    ) -> list[Answer]:
        """Return the number of each row's answer with the highest reward; the last one of equal rewards."""
        del word_starts
        return [_highest(details["rewards"]) for details in self.details_of(rows, scores)]

    def details_of(self, rows: Sequence[LabeledRow], scores: Sequence[np.ndarray]) -> list[dict[str, Any]]:
        """Return the ``rewards`` of each row's answers, and their ``lengths`` in characters."""
        return [
            {"rewards": each[: len(row.texts)].tolist(), "lengths": _lengths(row)}
            for row, each in zip(rows, scores, strict=True)
        ]

    def further_scores(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the ``calibration`` of all pairs of answers; see ``pair_calibration``."""
        rewards = ([math.nan if each is None else each for each in row["rewards"]] for row in rows)
        pairs = (pair for row in rewards for pair in itertools.combinations(row, 2))
        return {"calibration": pair_calibration(better - worse for better, worse in pairs)}

    @property
    def metrics_by_name(self) -> Mapping[str, MetricFunction]:
        return {"accuracy": accuracy}

    def baseline_answers(
        self, rows: Sequence[LabeledRow], training_rows: Iterable[LabeledRow]
    ) -> list[Answer]:
        """Return the number of each row's longest answer; the last one of equal lengths."""
        del training_rows
        return [_highest(_lengths(row)) for row in rows]

    def num_answers(self, num_choices: int) -> int:
        return num_choices


def _highest(numbers: Sequence[float]) -> int:
    """Return the index of the highest number; the last one of equal numbers."""
    return len(numbers) - 1 - int(np.argmax(numbers[::-1]))


def _lengths(row: LabeledRow) -> list[int]:
    return [len(answer) for _, answer in row.texts]
