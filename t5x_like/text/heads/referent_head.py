"""Pronoun resolution by a masked language model: the likeliest phrase in the pronoun's place is its referent."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from t5x_like.text.heads.cloze_head import BLANK, MaskedCloze
from t5x_like.text.heads.head_format import (
    UNLABELED,
    Answer,
    Head,
    HeadExample,
    HeadRow,
    as_text,
    class_of,
    column_of,
)
from t5x_like.text.heads.input_format import EncoderInput
from t5x_like.text.heads.noun_phrases import noun_phrases
from t5x_like.text.templates import RowValues

_WRONG_RIGHT = ("False", "True")


@dataclass(frozen=True, kw_only=True)
class ReferentRanking(MaskedCloze):
    """Whether a phrase is the referent of a pronoun: yes if it is likelier in the pronoun's place than all others.

    Rows with a right phrase train the model: the phrase is ranked above each of the others, one pair an example. Rows
    with a wrong phrase are for evaluation only. That is how RoBERTa reads WSC and WNLI (Liu et al. 2019, section 5.1,
    https://arxiv.org/abs/1907.11692), and BERT WNLI (Kocijan et al. 2019, https://arxiv.org/abs/1905.06290).

    Attributes:
      text: Column with the text. It has ``[MASK]`` in place of the pronoun.
      referent: Column with the phrase.
      label: Column with 1 for a right phrase, 0 for a wrong one, -1 for unlabeled rows.
      candidates: Column with a list of other phrases. None for the text's noun phrases, which need the library
        TextBlob (``pip install 't5x-like[pronouns]'``).
      prepare: Function that makes these columns from a row, such as ``pronouns.wsc_referent``; None if rows have them.
    """

    text: str = "text"
    referent: str = "referent"
    label: str = "label"
    candidates: str | None = None
    prepare: Callable[[RowValues], RowValues] | None = None

    usual_num_choices: ClassVar[int] = 2

    @property
    def head(self) -> Head:
        """Implement ``HeadFormat``."""
        return Head("cloze", 2)

    def read(self, values: RowValues) -> HeadRow:
        """Implement ``HeadFormat``."""
        row = self.prepare(values) if self.prepare else values
        text, referent = (as_text(column_of(row, name)).strip() for name in (self.text, self.referent))
        if text.count(BLANK) != 1:
            raise ValueError(
                f"write {BLANK} once in column {self.text!r}, in the pronoun's place; it has {text!r}"
            )
        left, right = text.split(BLANK)
        if self.candidates is None:
            others = noun_phrases(left) + noun_phrases(right)
        else:
            others = tuple(map(as_text, column_of(row, self.candidates)))
        return HeadRow(
            texts=((left, right),),
            label=class_of(row, self.label, _WRONG_RIGHT),
            description=f"{text}\n{referent}",
            candidates=(referent, *_other_than(referent, others)),
        )

    def trains(self, row: HeadRow) -> bool:
        """Return whether the row's phrase is right, and has others to be compared with."""
        return row.label == 1 and len(row.candidates) > 1

    def _examples(self, row: HeadRow, origin: int, inputs: list[EncoderInput]) -> Iterable[HeadExample]:
        """Pair the phrase with each of the others. Alone it is paired with itself, since examples have two choices."""
        referent, others = inputs[0], inputs[1:] or inputs
        label = 0 if self.trains(row) else UNLABELED
        return [HeadExample((referent, other), origin, label=label) for other in others]

    def answers_of(
        self,
        rows: Sequence[HeadRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
    ) -> list[Answer]:
        """Return 1 for each row whose phrase is at least as likely as all others, else 0."""
        del word_starts
        is_first = np.array([pair[0] >= pair[1] for pair in scores])
        counts = [max(len(row.candidates) - 1, 1) for row in rows]
        return [int(each.all()) for each in np.split(is_first, np.cumsum(counts)[:-1])]

    def num_answers(self, num_choices: int) -> int:
        """Implement ``HeadFormat``."""
        del num_choices
        return 2

    def written(self, answer: Answer, labels: Sequence[str]) -> Any:
        """Implement ``HeadFormat``."""
        return super().written(answer, labels or _WRONG_RIGHT)


def _other_than(referent: str, phrases: Sequence[str]) -> tuple[str, ...]:
    """Return the phrases that neither contain the referent nor are a part of it, each once."""
    found, own = dict[str, str](), referent.lower()
    for phrase in phrases:
        lower = phrase.lower()
        if lower not in own and own not in lower:
            found.setdefault(lower, phrase)
    return tuple(found.values())
