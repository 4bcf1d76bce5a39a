"""Texts whose vectors are compared: pairs, triplets, or single texts. The model has no head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from t5x_like.text.heads.head_answers import Answer, Head
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.labeled_rows import LabeledRow
from t5x_like.text.heads.row_cells import columns_in, filled
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.text.templates import RowValues


@dataclass(frozen=True, kw_only=True)
class TextTuple(HeadFormat):
    """Texts of a row, each read alone: the first two belong together, further ones don't.

    Attributes:
      texts: Templates, such as ``("{anchor}", "{positive}", "{negative}")``. A single one is for methods that read it
        twice.
      keeps_pooler: The model keeps its pooler, such as BERT's, for methods that read it.
    """

    texts: tuple[str, ...]
    keeps_pooler: bool = False

    has_choices: ClassVar[bool] = True
    label_loss: ClassVar[LabelLoss | None] = None
    label_parameters: ClassVar[tuple[str, ...]] = ()
    default_metrics: ClassVar[tuple[MetricFunction, ...]] = ()

    def __post_init__(self) -> None:
        if isinstance(self.texts, str) or not self.texts:
            raise ValueError(
                f"texts is {self.texts!r}; give a template for each text, such as ('{{anchor}}', '{{positive}}')"
            )
        if fixed := [text for text in self.texts if not columns_in(text)]:
            raise ValueError(
                f"the text {fixed[0]!r} names no column, and is the same in all rows; write {{{fixed[0]}}} for the "
                "column of this name"
            )

    @property
    def head(self) -> Head:
        """No head: ``encoding``, or ``base`` with the model's pooler."""
        return Head("base" if self.keeps_pooler else "encoding", 0)

    @property
    def usual_num_choices(self) -> int:
        return len(self.texts)

    @property
    def input_columns(self) -> tuple[str, ...]:
        return columns_in(*self.texts)

    def read(self, values: RowValues) -> LabeledRow:
        texts = tuple(filled(text, values) for text in self.texts)
        if empty := [template for template, text in zip(self.texts, texts, strict=True) if not text.strip()]:
            raise ValueError(f"the text {empty[0]!r} is empty; give each row all of its texts")
        return LabeledRow(texts=tuple((text,) for text in texts))

    def is_labeled(self, row: LabeledRow) -> bool:
        """Return True: that texts stand in one row is all that is learned."""
        del row
        return True

    @property
    def metrics_by_name(self) -> Mapping[str, MetricFunction]:
        """No metrics: a task of texts has no predictions."""
        return {}

    def most_frequent(self, rows: Sequence[LabeledRow]) -> None:
        """Return no baseline."""
        del rows

    def answers_of(
        self, rows: Sequence[LabeledRow], scores: Sequence[np.ndarray], word_starts: object
    ) -> list[Answer]:
        """Refuse to predict.

        Raises:
          ValueError: Always.
        """
        del rows, scores, word_starts
        raise ValueError("a task of texts has no predictions; compare vectors of from_pretrained(…).embed")
