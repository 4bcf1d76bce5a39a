"""Heads that predict a class or a number for each text."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from t5x_like.text.heads.head_answers import Answer, Head, OutputScale, Written
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.input_format import EncoderInput
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.heads.row_cells import as_text, class_of, columns_in, filled
from t5x_like.text.metrics import pearson_corrcoef
from t5x_like.text.metrics.by_name import MetricFunction, number_metrics
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.text.templates import RowValues


@dataclass(frozen=True, kw_only=True)
class SequenceClassification(HeadFormat):
    """One class for each text or pair of texts.

    Attributes:
      texts: Templates of one text or two.
      classes: Names of the classes by number.
      label: Column with the class, -1 for unlabeled rows.
    """

    texts: tuple[str, ...]
    classes: tuple[str, ...]
    label: str = "label"

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise ValueError(
                f"classes is {self.classes}; a head for one class has a loss of 0 whatever it predicts, so give at "
                "least two, or predict a number (Regression)"
            )

    @property
    def head(self) -> Head:
        return Head("sequence_classification", len(self.classes))

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.classes

    @property
    def answer_names(self) -> tuple[str, ...]:
        return self.classes

    @property
    def is_pair(self) -> bool:
        return len(self.texts) == 2

    @property
    def input_columns(self) -> tuple[str, ...]:
        return columns_in(*self.texts)

    def read(self, values: RowValues) -> LabeledRow:
        texts = tuple(filled(text, values) for text in self.texts)
        return LabeledRow(texts=(texts,), label=class_of(values, self.label, self.classes))

    def num_answers(self, num_choices: int) -> int:
        del num_choices
        return len(self.classes)

    def written(self, answer: Answer, labels: Sequence[str]) -> Written:
        return super().written(answer, labels or self.classes)


@dataclass(frozen=True, kw_only=True)
class Regression(HeadFormat):
    """A number for each text or pair of texts.

    Attributes:
      texts: Templates of one text or two.
      label: Column with the number.
      lowest: Minimum.
      highest: Maximum.
      unlabeled: Value of the column for unlabeled rows.
      mean: Number that is subtracted from labels before training, and added to outputs.
      deviation: Number by which labels are divided after that, and outputs multiplied.
    """

    texts: tuple[str, ...]
    label: str = "label"
    lowest: float
    highest: float
    unlabeled: float = -1.0
    mean: float = 0.0
    deviation: float = 1.0

    predicts_number: ClassVar[bool] = True
    label_loss: ClassVar[LabelLoss | None] = "regression"
    default_metrics: ClassVar[tuple[MetricFunction, ...]] = (pearson_corrcoef,)

    def __post_init__(self) -> None:
        if not self.deviation > 0:
            raise ValueError(
                f"deviation is {self.deviation}; labels are divided by it, so give a positive number"
            )

    @property
    def head(self) -> Head:
        return Head("sequence_classification", 1)

    @property
    def is_pair(self) -> bool:
        return len(self.texts) == 2

    @property
    def input_columns(self) -> tuple[str, ...]:
        return columns_in(*self.texts)

    def read(self, values: RowValues) -> LabeledRow:
        texts = tuple(filled(text, values) for text in self.texts)
        return LabeledRow(texts=(texts,), value=self._value(values))

    def _value(self, values: RowValues) -> float:
        if values.get(self.label) is None or as_text(values[self.label]) == "":
            return math.nan
        try:
            value = float(as_text(values[self.label]))
        except ValueError:
            raise ValueError(f"{self.label} is {values[self.label]!r}, not a number") from None
        if math.isclose(value, self.unlabeled):
            return math.nan
        if not self.lowest <= value <= self.highest:  # true for NaN too
            raise ValueError(f"{self.label} is {value}; it must lie in {self.lowest} … {self.highest}")
        return value

    def is_labeled(self, row: LabeledRow) -> bool:
        return not math.isnan(row.value)

    def examples_of(
        self, row: LabeledRow, origin: int, inputs: list[EncoderInput]
    ) -> Iterable[LabeledExample]:
        value = (row.value - self.mean) / self.deviation
        return [LabeledExample(tuple(inputs), origin, value=value)]

    def answers_of(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
    ) -> list[Answer]:
        """Return the outputs, clipped to ``lowest`` and ``highest``."""
        del rows, word_starts
        values = (float(row[0]) * self.deviation + self.mean for row in scores)
        return [float(np.clip(value, self.lowest, self.highest)) for value in values]

    @property
    def output_scale(self) -> OutputScale:
        return OutputScale(self.mean, self.deviation)

    @property
    def metrics_by_name(self) -> Mapping[str, MetricFunction]:
        return number_metrics()

    def probabilities(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
        labels: Sequence[str],
    ) -> None:
        """Return None: a number has none."""

    def most_frequent(self, rows: Sequence[LabeledRow]) -> Answer:
        """Return the mean, the best constant prediction."""
        return float(np.mean([row.value for row in rows]))

    def target(self, row: LabeledRow) -> float:
        return row.value
