"""Classification by filling a blank: which class's word fits best (GLM, Du et al. 2022; PET, Schick et al. 2021)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from t5x_like.text.heads.head_format import Answer, Head, HeadExample, HeadFormat, HeadRow, class_of, filled
from t5x_like.text.heads.input_format import EncoderInput, InputFormat, InputFraming
from t5x_like.text.objectives.blank_infilling import BlankIds
from t5x_like.text.objectives.framing import require_ids
from t5x_like.text.objectives.objective import Example, ExampleSpec
from t5x_like.text.templates import RowValues
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds, ids_of

BLANK = "[MASK]"


@dataclass(frozen=True, kw_only=True)
class ClozeClassification(HeadFormat):
    """A class for each text, predicted by the word that fills a blank.

    The model scores each class's word in the blank; a softmax over these log-likelihoods gives the classes. There are
    no new weights: the head is the output layer over the vocabulary. Rows have the form of GLM's blank infilling, one
    for each class: ``[CLS] left [MASK] right``, then the start of the blank and the word (Du et al. 2022, on
    fine-tuning, https://arxiv.org/abs/2103.10360; Schick and Schütze 2021, https://arxiv.org/abs/2001.07676).

    Attributes:
      pattern: Template with one ``[MASK]``, such as ``"{sentence} It was [MASK]."``.
      classes: Names of the classes by number.
      words: Verbalizer: the word or words of each class. By default the names of the classes.
      label: Column with the class, -1 for unlabeled rows.
      special: Ids of the vocabulary's own mask and start, as in ``BlankInfilling``.
    """

    pattern: str
    classes: tuple[str, ...]
    words: tuple[str, ...] = ()
    label: str = "label"
    special: BlankIds = field(default_factory=BlankIds)

    has_choices: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.pattern.count(BLANK) != 1:
            raise ValueError(
                f"pattern is {self.pattern!r}; write {BLANK} once, where the word of the class belongs"
            )
        if self.words and len(self.words) != len(self.classes):
            raise ValueError(
                f"{len(self.words)} words for {len(self.classes)} classes ({', '.join(self.classes)}); give one for "
                "each"
            )

    @property
    def head(self) -> Head:
        """Implement ``HeadFormat``."""
        return Head("cloze", len(self.classes))

    @property
    def class_names(self) -> tuple[str, ...]:
        """Implement ``HeadFormat``."""
        return self.classes

    def input_format(self, tokenizer: Any, limit: int, framing: InputFraming | None) -> InputFormat:
        """Return cls before the text, the mask in the blank, and the id that starts the blank's word.

        Raises:
          ValueError: The vocabulary lacks one of them, or a framing is given.
        """
        ids, mask = self._ids_and_mask(tokenizer, framing)
        start = ids.bos if self.special.start is None else self.special.start
        return _special_ids(limit, cls=ids.cls, mask=mask, start=start)

    def read(self, values: RowValues) -> HeadRow:
        """Implement ``HeadFormat``."""
        left, right = (filled(part, values) for part in self.pattern.split(BLANK))
        return HeadRow(texts=((left, right),), label=class_of(values, self.label, self.classes))

    def encode(
        self, rows: Sequence[HeadRow], first: int, tokenizer: Any, input_format: InputFormat, *, stride: int
    ) -> Iterator[HeadExample]:
        """Yield examples with a row for each class; text far from the blank is cut."""
        del stride
        # A space before the blank belongs to the word, as in texts.
        spaced = [left.endswith(" ") for (left, _), *_ in (row.texts for row in rows)]
        lefts = tokenizer.encode_all([row.texts[0][0].removesuffix(" ") for row in rows])
        rights = tokenizer.encode_all([row.texts[0][1] for row in rows])
        words = self.words or self.classes
        encoded = {
            space: tokenizer.encode_all([" " * space + word for word in words]) for space in set(spaced)
        }
        for origin, (row, left, right, space) in enumerate(
            zip(rows, lefts, rights, spaced, strict=True), start=first
        ):
            available = self._room(input_format.limit, max(map(len, encoded[space])))
            size = min(len(right), max(available - len(left), available // 2))
            kept = left[max(len(left) - (available - size), 0) :]
            cut = len(left) + len(right) - len(kept) - size
            texts = [self._text(kept, right[:size], len(word), input_format) for word in encoded[space]]
            yield HeadExample(
                tuple(
                    EncoderInput(np.array([*text, *word], np.int32), len(text), cut)
                    for text, word in zip(texts, encoded[space], strict=True)
                ),
                origin,
                label=row.label,
            )

    def _ids_and_mask(self, tokenizer: Any, framing: InputFraming | None) -> tuple[VocabularyIds, int | None]:
        """Return the vocabulary's ids, and that of the mask, which ``special`` may change."""
        if framing is not None:
            raise ValueError("a cloze has the form of its pretraining; leave out the task's InputFraming")
        ids = ids_of(tokenizer)
        return ids, ids.mask if self.special.mask is None else self.special.mask

    def _room(self, limit: int, word_length: int) -> int:
        """Return the tokens of a row that may be text: all but cls, the mask, and the word after the text."""
        return limit - 2 - word_length

    def _text(
        self, left: Sequence[int], right: Sequence[int], word_length: int, input_format: InputFormat
    ) -> list[int]:
        """Return the tokens of a text with its blank, which is one mask however long the word is."""
        del word_length
        return [*input_format.start, *left, *input_format.between, *right]

    def input_row(self, tokens: np.ndarray, second: int, input_format: InputFormat) -> Example:
        """Lay out a text and the word after it, whose tokens are predicted at the blank's position."""
        (mask,), (start,) = input_format.between, input_format.end
        text, word = tokens[:second], tokens[second:]
        blank = int(np.flatnonzero(text == mask)[-1])
        is_text = np.arange(len(tokens)) < second
        inside = np.arange(1, len(word) + 1)
        return Example(
            inputs=np.concatenate([text, [start], word[:-1]]).astype(np.int32),
            targets=np.where(is_text, 0, tokens).astype(np.int32),
            weights=np.zeros(len(tokens), np.float32),
            positions=np.where(is_text, np.arange(len(tokens)), blank).astype(np.int32),
            block_positions=np.concatenate([np.zeros(second), inside]).astype(np.int32),
            prefix=is_text.astype(np.int32),
        )

    def spec(self, num_choices: int = 0) -> ExampleSpec:
        """Implement ``HeadFormat``."""
        found = super().spec(num_choices)
        return found._replace(fields=("weights", "positions", "block_positions", "prefix", "label"))

    @property
    def usual_num_choices(self) -> int:
        """Number of words that may fill the blank."""
        return len(self.words or self.classes)

    def num_answers(self, num_choices: int) -> int:
        """Implement ``HeadFormat``."""
        return num_choices

    def written(self, answer: Answer, labels: Sequence[str]) -> Any:
        """Implement ``HeadFormat``."""
        return super().written(answer, labels or self.classes)


def _special_ids(limit: int, **ids: int | None) -> InputFormat:
    """Return the format of three ids: before the text, in the blank, and after the text."""
    require_ids(ids)
    before, blank, after = ((number,) for number in ids.values() if number is not None)
    return InputFormat(limit, before, blank, after)


@dataclass(frozen=True, kw_only=True)
class MaskedClozeClassification(ClozeClassification):
    """The same for masked language models such as BERT: a blank has a mask for each token of the class's word.

    The model scores the word's tokens at the masks, all in one pass: ``[CLS] left [MASK] [MASK] right [SEP]`` (Schick
    and Schütze 2021, https://arxiv.org/abs/2001.07676, whose words are single tokens). Fields are those of
    ``ClozeClassification``, without ``special.start``.
    """

    def input_format(self, tokenizer: Any, limit: int, framing: InputFraming | None) -> InputFormat:
        """Return cls before the text, the mask in the blank, and sep after the text.

        Raises:
          ValueError: The vocabulary lacks one of them, or a framing is given.
        """
        ids, mask = self._ids_and_mask(tokenizer, framing)
        return _special_ids(limit, cls=ids.cls, mask=mask, sep=ids.sep)

    def input_row(self, tokens: np.ndarray, second: int, input_format: InputFormat) -> Example:
        """Lay out a text, whose targets are the word's tokens at the masks."""
        text, word = tokens[:second], tokens[second:]
        masks = np.flatnonzero(text == input_format.between[0])[-len(word) :]
        targets = np.zeros(len(text), np.int32)
        targets[masks] = word
        return Example(
            inputs=text,
            targets=targets,
            token_types=np.zeros(len(text), np.int32),
            weights=np.zeros(len(text), np.float32),
        )

    def spec(self, num_choices: int = 0) -> ExampleSpec:
        """Implement ``HeadFormat``."""
        return HeadFormat.spec(self, num_choices)

    def _room(self, limit: int, word_length: int) -> int:
        return limit - 2 - 2 * word_length  # the masks, and the word that follows until the row is laid out

    def _text(
        self, left: Sequence[int], right: Sequence[int], word_length: int, input_format: InputFormat
    ) -> list[int]:
        return [*input_format.start, *left, *input_format.between * word_length, *right, *input_format.end]
