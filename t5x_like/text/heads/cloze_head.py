"""Candidates for a blank in a text, such as words of classes (GLM, Du et al. 2022; PET, Schick and Schütze 2021)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from t5x_like.text.heads.head_answers import Answer, Head, Written
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.input_format import EncoderInput, InputFormat, InputFraming
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.heads.row_cells import class_of, columns_in, filled
from t5x_like.text.objectives.blank_infilling import BlankIds
from t5x_like.text.objectives.framing import require_ids
from t5x_like.text.objectives.objective import Example, ExampleSpec, LabelLoss
from t5x_like.text.templates import RowValues
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds, ids_of

BLANK = "[MASK]"


@dataclass(frozen=True, kw_only=True)
class Cloze(HeadFormat):
    """Candidates for a blank in a text, whose likelihoods a model with GLM's blank infilling compares.

    A row's ``texts`` are the text before the blank and the text after it; ``candidates`` may fill the blank. Each
    candidate has an input row: ``[CLS] left [MASK] right``, then the start of the blank and the candidate (Du et al.
    2022, on fine-tuning, https://arxiv.org/abs/2103.10360).

    Attributes:
      special: Ids of the vocabulary's own mask and start, as in ``BlankInfilling``.
    """

    special: BlankIds = field(default_factory=BlankIds)

    has_choices: ClassVar[bool] = True
    label_loss: ClassVar[LabelLoss | None] = "multiple_choice"

    def input_format(self, tokenizer: Tokenizer, limit: int, framing: InputFraming | None) -> InputFormat:
        """Return cls before the text, the mask in the blank, and the id that starts the blank's tokens.

        Raises:
          ValueError: The vocabulary lacks one of them, or a framing is given.
        """
        ids, mask = self._ids_and_mask(tokenizer, framing)
        start = ids.bos if self.special.start is None else self.special.start
        return _special_ids(limit, cls=ids.cls, mask=mask, start=start)

    def _ids_and_mask(
        self, tokenizer: Tokenizer, framing: InputFraming | None
    ) -> tuple[VocabularyIds, int | None]:
        if framing is not None:
            raise ValueError("a cloze has the form of its pretraining; leave out the task's InputFraming")
        ids = ids_of(tokenizer)
        self.special.check(ids)
        return ids, ids.mask if self.special.mask is None else self.special.mask

    def encode(
        self,
        rows: Sequence[LabeledRow],
        first: int,
        tokenizer: Tokenizer,
        input_format: InputFormat,
        *,
        stride: int,
    ) -> Iterator[LabeledExample]:
        """Yield examples with an input row for each candidate; text far from the blank is cut.

        The tokens of an input row are the text before the blank, the candidate, a mask, and the text after the blank.
        ``input_row`` lays them out for the model.
        """
        del stride
        # A space before the blank belongs to the candidate, as in texts.
        spaces = [" " * row.texts[0][0].endswith(" ") for row in rows]
        lefts = tokenizer.encode_all([row.texts[0][0].removesuffix(" ") for row in rows])
        rights = tokenizer.encode_all([row.texts[0][1] for row in rows])
        unique = list(
            dict.fromkeys(
                space + each for row, space in zip(rows, spaces, strict=True) for each in row.candidates
            )
        )
        encoded = dict(zip(unique, tokenizer.encode_all(unique), strict=True))
        before, mask, after = input_format.start, input_format.between, input_format.end
        for origin, (row, space, left, right) in enumerate(
            zip(rows, spaces, lefts, rights, strict=True), start=first
        ):
            candidates = [encoded[space + each] for each in row.candidates]
            # All but cls, the mask, and one more special id belongs to the text and the longest candidate.
            longest = max(map(len, candidates))
            available = input_format.limit - 3 - longest
            if available < 0:
                raise ValueError(
                    f"a candidate for the blank has {longest} tokens, and a row has {input_format.limit}; raise "
                    f"inputs_length to more than {longest + 3}: {row.candidates}"
                )
            size = min(len(right), max(available - len(left), available // 2))
            kept = left[max(len(left) - (available - size), 0) :]
            cut = len(left) + len(right) - len(kept) - size
            inputs = [
                EncoderInput(
                    np.array([*before, *kept, *candidate, *mask, *right[:size], *after], np.int32),
                    len(before) + len(kept),
                    cut,
                )
                for candidate in candidates
            ]
            yield from self.examples_of(row, origin, inputs)

    def input_row(self, tokens: np.ndarray, second: int, input_format: InputFormat) -> Example:
        """Lay out a text with a mask, and the candidate after it, whose tokens have the mask's position."""
        (mask,), (start,) = input_format.between, input_format.end
        left, candidate, right = _parts(tokens, second, mask)
        text = np.concatenate([left, [mask], right[:-1]])
        num_text, inside = len(text), np.arange(1, len(candidate) + 1)
        return Example(
            inputs=np.concatenate([text, [start], candidate[:-1]]).astype(np.int32),
            targets=np.concatenate([np.zeros(num_text), candidate]).astype(np.int32),
            weights=np.zeros(len(tokens) - 1, np.float32),
            positions=np.concatenate([np.arange(num_text), np.full(len(candidate), second)]).astype(np.int32),
            block_positions=np.concatenate([np.zeros(num_text), inside]).astype(np.int32),
            prefix=(np.arange(len(tokens) - 1) < num_text).astype(np.int32),
        )

    def spec(self, num_choices: int = 0) -> ExampleSpec:
        spec = super().spec(num_choices)
        return spec._replace(fields=("weights", "positions", "block_positions", "prefix", "label"))


def _special_ids(limit: int, **ids: int | None) -> InputFormat:
    """Return the format of three ids: before the text, in the blank, and after the text."""
    require_ids(ids)
    before, blank, after = ((token_id,) for token_id in ids.values() if token_id is not None)
    return InputFormat(limit, before, blank, after)


def _parts(tokens: np.ndarray, start: int, mask: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tokens before the blank, the candidate, and those after the mask that ends it."""
    end = start + int(np.flatnonzero(tokens[start:] == mask)[0])
    return tokens[:start], tokens[start:end], tokens[end + 1 :]


@dataclass(frozen=True, kw_only=True)
class MaskedCloze(Cloze):
    """Candidates for a blank, for masked language models such as BERT.

    The blank has a mask for each token of the candidate, all of which are predicted in one pass: ``[CLS] left [MASK]
    [MASK] right [SEP]``. A candidate's score is the mean log-likelihood of its tokens (Kocijan et al. 2019, section
    3.1, https://arxiv.org/abs/1905.06290).
    """

    def input_format(self, tokenizer: Tokenizer, limit: int, framing: InputFraming | None) -> InputFormat:
        """Return cls before the text, the mask in the blank, and sep after the text.

        Raises:
          ValueError: The vocabulary lacks one of them, or a framing is given.
        """
        ids, mask = self._ids_and_mask(tokenizer, framing)
        return _special_ids(limit, cls=ids.cls, mask=mask, sep=ids.sep)

    def input_row(self, tokens: np.ndarray, second: int, input_format: InputFormat) -> Example:
        """Lay out a text, whose targets are the candidate's tokens at the masks; no tokens are an empty row."""
        (mask,) = input_format.between
        if not len(tokens):
            return Example(inputs=tokens, targets=tokens, token_types=tokens, weights=np.zeros(0, np.float32))
        left, candidate, right = _parts(tokens, second, mask)
        inputs = np.concatenate([left, np.full(len(candidate), mask), right]).astype(np.int32)
        targets = np.zeros(len(inputs), np.int32)
        targets[second : second + len(candidate)] = candidate
        return Example(
            inputs=inputs,
            targets=targets,
            token_types=np.zeros(len(inputs), np.int32),
            weights=np.zeros(len(inputs), np.float32),
        )

    def spec(self, num_choices: int = 0) -> ExampleSpec:
        return HeadFormat.spec(self, num_choices)


@dataclass(frozen=True, kw_only=True)
class ClozeClassification(Cloze):
    """A class for each text, predicted by the word that fills a blank.

    The model scores each class's word in the blank; a softmax over these scores gives the classes. There are no new
    weights: the head is the output layer over the vocabulary (Du et al. 2022; Schick and Schütze 2021,
    https://arxiv.org/abs/2001.07676).

    Attributes:
      pattern: Template with one ``[MASK]``, such as ``"{sentence} It was [MASK]."``.
      classes: Names of the classes by number.
      words: Verbalizer: the word or words of each class. By default the names of the classes.
      label: Column with the class, -1 for unlabeled rows.
    """

    pattern: str
    classes: tuple[str, ...]
    words: tuple[str, ...] = ()
    label: str = "label"

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
        return Head("cloze", len(self.classes))

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.classes

    @property
    def input_columns(self) -> tuple[str, ...]:
        return columns_in(self.pattern)

    def read(self, values: RowValues) -> LabeledRow:
        left, right = (filled(part, values) for part in self.pattern.split(BLANK))
        return LabeledRow(
            texts=((left, right),),
            label=class_of(values, self.label, self.classes),
            candidates=self.words or self.classes,
            description=f"{left}{BLANK}{right}",
        )

    @property
    def usual_num_choices(self) -> int:
        """Number of words that may fill the blank."""
        return len(self.words or self.classes)

    def num_answers(self, num_choices: int) -> int:
        return num_choices

    def written(self, answer: Answer, labels: Sequence[str]) -> Written:
        return super().written(answer, labels or self.classes)


@dataclass(frozen=True, kw_only=True)
class MaskedClozeClassification(MaskedCloze, ClozeClassification):
    """The same for masked language models such as BERT; see ``MaskedCloze``."""
