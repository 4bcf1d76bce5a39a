"""Fill-in-the-middle for causal decoders: the middle of a document moves to its end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from t5x_like.config_class import refuse_unused
from t5x_like.text.objectives.causal_lm import CausalLM, prepend_previous_token
from t5x_like.text.objectives.cutting import cut_documents
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.random_bits import random_fractions
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_NUM_MARKS = 3  # ids that a rearranged document has besides its own and its end
_NUM_DRAWS = 4  # random numbers of each document: rearrange or not, format, two cuts


@dataclass(frozen=True, kw_only=True)
class InfillingIds:
    """Ids that mark the parts of a document; by default the vocabulary's first three sentinels.

    Attributes:
      prefix: Id such as StarCoder's ``<fim_prefix>``.
      suffix: Id such as ``<fim_suffix>``.
      middle: Id such as ``<fim_middle>``.
    """

    prefix: int | None = None
    suffix: int | None = None
    middle: int | None = None


@dataclass(frozen=True, kw_only=True)
class FillInTheMiddle:
    """Causal language modeling of documents, a share of which is rearranged so that its middle comes last.

    A document ``a b c d`` with the middle ``b c`` becomes ``<PRE> a <SUF> d <MID> b c </s>`` (PSM) or
    ``<PRE> <SUF> d <MID> a b c </s>`` (SPM; the paper's variant 2, which shares its marks with PSM). All tokens count
    in the loss, the marks included. Other documents are learned as by ``CausalLM``.

    Documents are rearranged after they are cut into rows (the paper's context level), so no row boundary breaks one. A
    part of a document is rearranged like a whole one, and ends with an end of sequence too. Rows leave space for the
    marks of all their documents, so no token is lost; with low rates some positions stay empty.

    Cuts lie between tokens, because a cache holds ids and no text. The paper cuts between characters (§4.4), which
    models need that are prompted within a token: a vocabulary of bytes or characters gives that.

    Bavarian et al. 2022, §3 and §4, https://arxiv.org/abs/2207.14255.

    Attributes:
      fim_rate: Share of the documents that are rearranged; the paper recommends 0.5 to 0.9.
      spm_rate: Share of the rearranged documents in the format SPM; the others are in PSM.
      isolate_documents: Makes documents examples of their own, with attention and positions of their own, as
        in ``CausalLM``.
      begin_with: Id read before a document: the end of the one before, or a beginning of sequence.
      special: Ids of the three marks.
    """

    fim_rate: float = 0.5
    spm_rate: float = 0.5
    isolate_documents: bool = False
    begin_with: Literal["eos", "bos"] = "eos"
    special: InfillingIds = InfillingIds()

    def __post_init__(self) -> None:
        CausalLM(begin_with=self.begin_with)  # validates the argument
        for name in ("fim_rate", "spm_rate"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie between 0 and 1, got {getattr(self, name)}")
        if not self.fim_rate:
            refuse_unused(self, "spm_rate", "special", because="no document is rearranged (fim_rate is 0)")

    @property
    def spec(self) -> ExampleSpec:
        """Decoder examples with explicit inputs."""
        return ExampleSpec(layout="decoder", fields=("inputs",), ends_documents=True)

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        CausalLM(begin_with=self.begin_with).check(lengths, ids)
        least = _NUM_MARKS + 3
        if lengths.targets < least:
            raise ValueError(
                f"targets_length of {lengths.targets} is too short for a document and {_NUM_MARKS} marks; set it to "
                f"{least} or more"
            )
        marks = (self.special.prefix, self.special.suffix, self.special.middle)
        needed = max((index for index, mark in enumerate(marks, 1) if mark is None), default=0)
        if needed > ids.num_sentinels:
            raise ValueError(
                f"the vocabulary has {ids.num_sentinels} sentinels, {needed} are needed to mark prefix, suffix and "
                "middle; raise num_sentinels, or give the ids of such marks as special=InfillingIds(...)"
            )
        for mark in marks:
            if mark is not None and not 0 <= mark < ids.vocab_size:
                raise ValueError(f"the mark {mark} is not below the vocabulary's size of {ids.vocab_size}")
        if len(set(self._marks(ids))) < _NUM_MARKS:
            raise ValueError(f"prefix, suffix and middle need ids of their own, got {self._marks(ids)}")

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut runs over all documents of the window that leave space for the marks, or parts of each document."""
        del key
        if self.isolate_documents:
            return prepend_previous_token(window, cut_documents(window, lengths.targets - _NUM_MARKS - 1))
        ends = np.array(list(_run_ends(window.ends, lengths.targets)), np.int64)
        starts = np.append(0, ends)[:-1]
        return prepend_previous_token(window, Cuts(starts[:, None], ends[:, None]))

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Rearrange documents by their text's seed; each text begins with the token before it."""
        del lengths
        assert ids.eos is not None, "a loader refuses vocabularies without an end"
        marks = self._marks(ids)
        documents = [_documents_of(text.tokens[1:], ids.eos) for text in texts]
        most = max(map(len, documents), default=0)
        draws = random_fractions(seeds, _NUM_DRAWS * most).reshape(len(texts), most, _NUM_DRAWS)
        examples = []
        for text, of_text, drawn in zip(texts, documents, draws, strict=True):
            parts = [
                self._arrange(each, draw, marks, ids.eos) for each, draw in zip(of_text, drawn, strict=False)
            ]
            targets = np.concatenate(parts).astype(np.int32)
            is_rearranged = parts[0] is not of_text[0]
            begin = ids.eos if is_rearranged else text.tokens[0]
            inputs = np.append(np.int32(begin), targets[:-1]).astype(np.int32)
            if self.begin_with == "bos":
                inputs = np.where(inputs == ids.eos, np.int32(ids.bos or 0), inputs)
            examples.append(Example(inputs=inputs, targets=targets))
        return examples

    def _arrange(
        self, document: np.ndarray, drawn: np.ndarray, marks: tuple[int, int, int], eos: int
    ) -> np.ndarray:
        """Return one document, with its end if it has one, in the format that the random numbers choose."""
        size = len(document) - int(document[-1] == eos)
        if not size or drawn[0] >= self.fim_rate:
            return document
        start, end = sorted((drawn[2:] * (size + 1)).astype(np.int64).tolist())
        prefix, middle, suffix = document[:start], document[start:end], document[end:size]
        before, after, inside = ([mark] for mark in marks)
        if drawn[1] < self.spm_rate:
            return np.concatenate([before, after, suffix, inside, prefix, middle, [eos]])
        return np.concatenate([before, prefix, after, suffix, inside, middle, [eos]])

    def _marks(self, ids: VocabularyIds) -> tuple[int, int, int]:
        """Return the ids of prefix, suffix and middle."""
        marks = (self.special.prefix, self.special.suffix, self.special.middle)
        first, second, third = (
            ids.first_sentinel - index if mark is None else mark for index, mark in enumerate(marks)
        )
        return first, second, third


def _run_ends(document_ends: np.ndarray, row: int) -> Iterator[int]:
    """Yield the ends of runs that fit ``row`` with three marks for each document, and an end for the last."""
    marked_ends = document_ends + _NUM_MARKS * np.arange(1, len(document_ends) + 1)
    start, document = 0, 0
    while document < len(document_ends):
        limit = start + row - 1 + _NUM_MARKS * document
        following = int(
            np.searchsorted(marked_ends, limit, side="right")
        )  # the first document that isn't whole
        end = int(document_ends[following - 1]) if following > document else start
        if following < len(document_ends):
            end = max(end, limit - _NUM_MARKS * (following + 1))
        yield end
        start, document = end, following


def _documents_of(tokens: np.ndarray, eos: int) -> list[np.ndarray]:
    """Split a run after each end of sequence."""
    ends = np.flatnonzero(tokens == eos) + 1
    return [part for part in np.split(tokens, ends) if len(part)]
