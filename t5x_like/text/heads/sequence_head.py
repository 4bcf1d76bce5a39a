"""Heads that read whole texts: a class or a number for each row."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from t5x_like.text.heads.head_format import (
    Answer,
    Head,
    HeadFormat,
    HeadRow,
    as_text,
    class_of,
    filled,
)
from t5x_like.text.metrics import pearson_corrcoef
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.templates import RowValues


@dataclass(frozen=True, kw_only=True)
class SequenceClassification(HeadFormat):
    """One class for each text or pair of texts.

    Attributes:
      texts: Templates of one text or two.
      classes: Words of the classes, in the order of their numbers.
      label: Column with the class, -1 where unlabeled.
    """

    texts: tuple[str, ...]
    classes: tuple[str, ...]
    label: str = "label"

    @property
    def head(self) -> Head:
        """See ``HeadFormat``."""
        return Head("sequence_classification", len(self.classes))

    @property
    def class_names(self) -> tuple[str, ...]:
        """See ``HeadFormat``."""
        return self.classes

    def read(self, values: RowValues) -> HeadRow:
        """See ``HeadFormat``."""
        texts = tuple(filled(text, values) for text in self.texts)
        return HeadRow(texts=(texts,), label=class_of(values, self.label, self.classes))

    def num_answers(self, num_choices: int) -> int:
        """See ``HeadFormat``."""
        del num_choices
        return len(self.classes)

    def written(self, answer: Answer, labels: Sequence[str]) -> Any:
        """See ``HeadFormat``."""
        return super().written(answer, labels or self.classes)


@dataclass(frozen=True, kw_only=True)
class Regression(HeadFormat):
    """A number for each text or pair of texts.

    Attributes:
      texts: Templates of one text or two.
      label: Column with the number.
      lowest: Least number there is.
      highest: Greatest number there is.
      unlabeled: Number in the column ``label`` of rows that have none.
    """

    texts: tuple[str, ...]
    label: str = "label"
    lowest: float
    highest: float
    unlabeled: float = -1.0

    predicts_number: ClassVar[bool] = True
    label_fields: ClassVar[tuple[str, ...]] = ("value",)
    default_metrics: ClassVar[tuple[MetricFunction, ...]] = (pearson_corrcoef,)

    @property
    def head(self) -> Head:
        """See ``HeadFormat``."""
        return Head("sequence_classification", 1)

    def read(self, values: RowValues) -> HeadRow:
        """See ``HeadFormat``."""
        texts = tuple(filled(text, values) for text in self.texts)
        return HeadRow(texts=(texts,), value=self._value(values))

    def _value(self, values: RowValues) -> float:
        if self.label not in values or as_text(values[self.label]) == "":
            return math.nan
        try:
            value = float(as_text(values[self.label]))
        except ValueError:
            raise ValueError(f"{self.label} is {values[self.label]!r}, not a number") from None
        if math.isclose(value, self.unlabeled):
            return math.nan
        if not self.lowest <= value <= self.highest:  # also what is no number
            raise ValueError(f"{self.label} is {value}; it lies in {self.lowest} … {self.highest}")
        return value

    def is_labeled(self, row: HeadRow) -> bool:
        """See ``HeadFormat``."""
        return not math.isnan(row.value)

    def answers_of(
        self,
        rows: Sequence[HeadRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
    ) -> list[Answer]:
        """Returns the scores, within ``lowest`` and ``highest``."""
        del rows, word_starts
        return [float(np.clip(row[0], self.lowest, self.highest)) for row in scores]

    def most_frequent(self, rows: Sequence[HeadRow]) -> Answer:
        """Returns the mean."""
        return float(np.mean([row.value for row in rows]))

    def target(self, row: HeadRow) -> float:
        """See ``HeadFormat``."""
        return row.value
