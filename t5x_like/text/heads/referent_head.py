"""Pronoun resolution by a masked language model: the likeliest phrase in the pronoun's place is its referent."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from t5x_like.text.cells import is_single
from t5x_like.text.heads.cloze_head import BLANK, MaskedCloze
from t5x_like.text.heads.head_answers import Answer, Head, Written
from t5x_like.text.heads.input_format import EncoderInput
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.heads.noun_phrases import noun_phrases
from t5x_like.text.heads.row_cells import UNLABELED, as_text, class_of, column_of
from t5x_like.text.templates import RowValues

_WRONG_RIGHT = ("False", "True")
_NO_INPUT = EncoderInput(np.array([], np.int32), 0, 0)


@dataclass(frozen=True, kw_only=True)
class ReferentRanking(MaskedCloze):
    """Pronoun resolution: a phrase is the referent if it is the likeliest of all in the pronoun's place.

    Rows with a right phrase train the model, as a choice between the phrase and others. Rows with a wrong phrase are
    for evaluation only. That is how RoBERTa reads WSC and WNLI (Liu et al. 2019, section 5.1,
    https://arxiv.org/abs/1907.11692), and BERT WNLI (Kocijan et al. 2019, https://arxiv.org/abs/1905.06290). The phrase
    of a row without others counts as right.

    Attributes:
      text: Column with the text. It has ``[MASK]`` in place of the pronoun.
      referent: Column with the phrase.
      label: Column with 1 for a right phrase, 0 for a wrong one, -1 for unlabeled rows.
      candidates: Column with a list of other phrases. None for the text's noun phrases, which need the library
        TextBlob (``pip install 't5x-like[pronouns]'``).
      num_choices: Phrases of an example: the one in question and others. More others make several examples, fewer leave
        rows empty. 2 makes pairs.
      prepare: Makes the columns from a row, such as ``pronouns.WscReferents()``; None if rows have them.
    """

    text: str = "text"
    referent: str = "referent"
    label: str = "label"
    candidates: str | None = None
    num_choices: int = 8
    why_left_out: ClassVar[str] = "have no right phrase, or no other one to compare it with"
    prepare: Callable[[RowValues], RowValues] | None = None

    def __post_init__(self) -> None:
        if self.num_choices < 2:
            raise ValueError(
                f"num_choices is {self.num_choices}; give at least 2, the phrase and another one"
            )

    @property
    def head(self) -> Head:
        return Head("cloze", 2)

    @property
    def usual_num_choices(self) -> int:
        """Number of phrases in an example."""
        return self.num_choices

    def read(self, values: RowValues) -> LabeledRow:
        row = self.prepare(values) if self.prepare else values
        text, referent = (as_text(column_of(row, name)).strip() for name in (self.text, self.referent))
        if text.count(BLANK) != 1:
            raise ValueError(
                f"write {BLANK} once in column {self.text!r}, in the pronoun's place; it has {text!r}"
            )
        if not referent:
            raise ValueError(f"column {self.referent!r} is empty; it needs the phrase in question")
        return LabeledRow(
            texts=(tuple(text.split(BLANK)),),
            label=class_of(row, self.label, _WRONG_RIGHT),
            candidates=(referent, *self._others(row, text, referent)),
            description=f"{text}\n{referent}",
        )

    def _others(self, row: RowValues, text: str, referent: str) -> tuple[str, ...]:
        """Return the other phrases, each once."""
        own = _words(referent)
        if self.candidates is None:
            mined = (phrase for part in text.split(BLANK) for phrase in noun_phrases(part))
            others = [each for each in mined if not _overlap(_words(each), own)]
        else:
            phrases = column_of(row, self.candidates)
            if is_single(phrases):
                raise ValueError(
                    f"column {self.candidates!r} has {phrases!r}; give a list of phrases, in a JSONL or parquet file"
                )
            others = [each for each in map(as_text, phrases) if _words(each) != own]
        by_lower = dict[str, str]()
        for each in others:
            by_lower.setdefault(each.lower(), each)
        return tuple(by_lower.values())

    def trains(self, row: LabeledRow) -> bool:
        """Return whether the row's phrase is right, and has others to be compared with."""
        return row.label == 1 and len(row.candidates) > 1

    def examples_of(
        self, row: LabeledRow, origin: int, inputs: list[EncoderInput]
    ) -> Iterable[LabeledExample]:
        """Compare the phrase with the others, as many at a time as an example has room for."""
        size, label = self.num_choices - 1, 0 if self.trains(row) else UNLABELED
        for start in range(1, max(len(inputs), 2), size):
            others = inputs[start : start + size]
            padding = [_NO_INPUT] * (size - len(others))
            yield LabeledExample((inputs[0], *others, *padding), origin, label=label)

    def answers_of(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
    ) -> list[Answer]:
        """Return 1 for each row whose phrase is at least as likely as all others, else 0."""
        del word_starts
        is_likeliest = np.array([each[0] >= max(each[1:]) for each in scores])
        counts = [-(-max(len(row.candidates) - 1, 1) // (self.num_choices - 1)) for row in rows]
        return [int(each.all()) for each in np.split(is_likeliest, np.cumsum(counts)[:-1])]

    def probabilities(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
        labels: Sequence[str],
    ) -> None:
        """Return None: a phrase is compared with others, any number of them."""

    def num_answers(self, num_choices: int) -> int:
        del num_choices
        return 2

    def written(self, answer: Answer, labels: Sequence[str]) -> Written:
        return super().written(answer, labels or _WRONG_RIGHT)


def _words(phrase: str) -> list[str]:
    return re.findall(r"\w+", phrase.lower())


def _overlap(first: list[str], second: list[str]) -> bool:
    """Return whether the words of one phrase contain those of the other, in order and without gaps."""
    shorter, longer = sorted((first, second), key=len)
    size = len(shorter)
    return any(longer[start : start + size] == shorter for start in range(len(longer) - size + 1))
