"""Rows with labels as heads read them, and the tokenized examples that are made of them."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.heads.input_format import EncoderInput
from t5x_like.text.heads.row_cells import UNLABELED


class LabeledRow(NamedTuple):
    """Row as a head reads it; each head format fills its own fields.

    Attributes:
      texts: One text or two, for each choice or candidate if there are several.
      label: Class, or number of the correct choice.
      value: Number that a regression predicts.
      answers: Spans of the second text, in characters; None for unlabeled rows.
      words: Words of a tagging task.
      tags: Class of each word.
      description: Readable form of the row; by default its texts.
      candidates: Texts that may fill the gap.
      rights: 1 for each correct candidate, 0 for a wrong one, -1 for unlabeled rows.
      classes: All classes of a row with several, sorted; None for unlabeled rows.
      entities: First character of each entity in the text, the one after its last, and its number.
      declared: Values of the streams that the task declares, by name.
      values: Columns of the source row.
      number: Position in the split; 0 for a row of no split.
    """

    texts: tuple[tuple[str, ...], ...]
    label: int = UNLABELED
    value: float = math.nan
    answers: tuple[tuple[int, int], ...] | None = None
    words: tuple[str, ...] = ()
    tags: tuple[int, ...] = ()
    description: str = ""
    candidates: tuple[str, ...] = ()
    rights: tuple[int, ...] = ()
    classes: tuple[int, ...] | None = None
    entities: tuple[tuple[int, int, int], ...] = ()
    declared: Mapping[str, float] = {}
    values: Mapping[str, Any] = {}
    number: int = 0

    @property
    def input_text(self) -> str:
        """All texts in readable form."""
        if self.words:
            return " ".join(self.words)
        if self.description:
            return self.description
        return "\n".join(dict.fromkeys(text for texts in self.texts for text in texts))


class LabeledExample(NamedTuple):
    """One tokenized example: an input row, or one for each choice.

    Attributes:
      rows: Input rows.
      origin: Index of the task's row; long contexts and candidates make several examples of one row.
      label: Class, or number of the correct choice; -1 for an unlabeled row.
      value: Number that a regression predicts; NaN for an unlabeled row.
      span: First and last token of the answer.
      classes: Class of each token, int32 [L], -1 for none; or all classes of the row, [-1] for an unlabeled one.
      starts: First character of each token of the context, int32.
      ends: Character after each token of the context, int32.
      offset: Start of the window in the context, in tokens.
      declared: Numbers of the row for the task's streams, and those of tokens for the format's, by name.
    """

    rows: tuple[EncoderInput, ...]
    origin: int
    label: int = UNLABELED
    value: float = math.nan
    span: tuple[int, int] = (-1, -1)
    classes: np.ndarray | None = None
    starts: np.ndarray | None = None
    ends: np.ndarray | None = None
    offset: int = 0
    declared: Mapping[str, Any] = {}
