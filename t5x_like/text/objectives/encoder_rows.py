"""What the objectives of an encoder of BERT's kind share: rows of one text, or of a pair of segments, each framed."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from t5x_like.text.objectives.cutting import cut_documents, cut_runs
from t5x_like.text.objectives.framing import frame, require_frame, to_examples
from t5x_like.text.objectives.masking import Masking
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.sentence_cutting import cut_full_sentences
from t5x_like.text.objectives.word_masking import TokenMasking
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

# What a row holds: even runs over joined documents; one document, or an even part of it; as many whole sentences as
# fit, across documents or of one (RoBERTa's FULL-SENTENCES and DOC-SENTENCES, Liu et al. 2019, §4.2).
InputFormat = Literal["runs", "documents", "full_sentences", "doc_sentences"]


@dataclass(frozen=True, kw_only=True)
class EncoderRows:
    """With ``num_copies`` = k every text is made in k ways, again and again; with None in every epoch anew."""

    num_copies: int | None = None

    def __post_init__(self) -> None:
        if self.num_copies is not None and self.num_copies < 1:
            raise ValueError(
                f"num_copies must be at least 1, or None for new masks in every epoch, got {self.num_copies}"
            )


@dataclass(frozen=True, kw_only=True)
class SingleTexts(EncoderRows):
    """Rows of one text each."""

    input_format: InputFormat = "runs"

    def __post_init__(self) -> None:
        if self.input_format not in get_args(InputFormat):
            raise ValueError(
                f"input_format must be one of {', '.join(get_args(InputFormat))}, got {self.input_format!r}"
            )
        super().__post_init__()

    @property
    def spec(self) -> ExampleSpec:
        """Rows of an encoder, which several texts may share."""
        return ExampleSpec(
            layout="encoder",
            fields=("weights",),
            ends_documents=self.input_format != "documents",
            needs_sentences=self.input_format in ("full_sentences", "doc_sentences"),
            num_copies=self.num_copies,
        )

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """See ``Objective.check``."""
        require_frame(ids, room=1, limit=lengths.inputs, special=2)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Texts of the input format."""
        del key
        most = lengths.inputs - 2
        if self.input_format == "runs":
            return cut_runs(window, most)
        if self.input_format == "documents":
            return cut_documents(window, most)
        return cut_full_sentences(window, most, across_documents=self.input_format == "full_sentences")


@dataclass(frozen=True, kw_only=True)
class MaskedPairs(EncoderRows, ABC):
    """Rows of two segments with masked words, and a label that says how the segments belong together."""

    masking: Masking = field(default_factory=TokenMasking)
    short_rate: float = 0.1

    def __post_init__(self) -> None:
        require_masking(self.masking)
        super().__post_init__()
        require_shares(short_rate=self.short_rate)

    @property
    def spec(self) -> ExampleSpec:
        """A pair is a row, with a label."""
        return ExampleSpec(
            layout="encoder",
            fields=("weights", "token_types", "label"),
            needs_sentences=True,
            fills_rows=True,
            num_copies=self.num_copies,
        )

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """See ``Objective.check``."""
        require_frame(ids, room=2, limit=lengths.inputs, special=3)
        self.masking.check(ids)

    @abstractmethod
    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """See ``Objective.cut``."""

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Frames and masks pairs together."""
        del lengths
        framed = frame(texts, ids)
        return to_examples(framed, self.masking.mask(framed, seeds, ids), pairs=True)


def require_masking(masking: Masking) -> None:
    """Refuses what can't mask.

    Raises:
      ValueError: says what can.
    """
    if isinstance(masking, type) or not isinstance(masking, Masking):
        raise ValueError(
            f"masking must be TokenMasking(), SpanMasking() or KnowledgeMasking(), got {masking!r}; in gin "
            "@word_masking.TokenMasking()"
        )


def require_shares(**shares: float) -> None:
    """Refuses rates outside 0 to 1.

    Raises:
      ValueError: says which.
    """
    for name, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} must lie between 0 and 1, got {share}")
