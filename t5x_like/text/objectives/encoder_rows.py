"""Base classes of BERT-style objectives: rows of one text or of a pair of segments."""

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
from t5x_like.value_types import fits

# Content of a row: a run over joined documents; one document, or a part of it; as many whole sentences as
# fit, across documents or of one (RoBERTa's FULL-SENTENCES and DOC-SENTENCES, Liu et al. 2019, §4.2).
InputFormat = Literal["runs", "documents", "full_sentences", "doc_sentences"]


@dataclass(frozen=True, kw_only=True)
class EncoderRows:
    """Base of encoder objectives.

    Attributes:
      num_copies: Number of fixed masks per text, used in turn (static masking). None draws new ones in every epoch.
    """

    num_copies: int | None = None

    def __post_init__(self) -> None:
        if self.num_copies is not None and self.num_copies < 1:
            raise ValueError(
                f"num_copies must be at least 1, or None for new masks in every epoch, got {self.num_copies}"
            )


@dataclass(frozen=True, kw_only=True)
class SingleTexts(EncoderRows):
    """Rows of one text each.

    Attributes:
      input_format: Content of a row; see ``InputFormat``.
    """

    input_format: InputFormat = "runs"

    def __post_init__(self) -> None:
        if self.input_format not in get_args(InputFormat):
            raise ValueError(
                f"input_format must be one of {', '.join(get_args(InputFormat))}, got {self.input_format!r}"
            )
        super().__post_init__()

    @property
    def spec(self) -> ExampleSpec:
        """Encoder rows that packing may combine."""
        return ExampleSpec(
            layout="encoder",
            fields=("weights",),
            ends_documents=self.input_format != "documents",
            needs_sentences=self.input_format in ("full_sentences", "doc_sentences"),
            num_copies=self.num_copies,
        )

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        require_frame(ids, min_tokens=1, limit=lengths.inputs, num_special=2)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut texts of the input format; see ``Objective.cut``."""
        del key
        max_length = lengths.inputs - 2
        if self.input_format == "runs":
            return cut_runs(window, max_length)
        if self.input_format == "documents":
            return cut_documents(window, max_length)
        return cut_full_sentences(window, max_length, across_documents=self.input_format == "full_sentences")


@dataclass(frozen=True, kw_only=True)
class MaskedPairs(EncoderRows, ABC):
    """Rows of two segments with masked tokens, and a label for the relation of the segments.

    Attributes:
      masking: Distribution of the masked tokens.
      short_rate: Fraction of the texts with a random length below the maximum.
    """

    masking: Masking = field(default_factory=TokenMasking)
    short_rate: float = 0.1

    def __post_init__(self) -> None:
        require_masking(self.masking)
        super().__post_init__()
        require_shares(short_rate=self.short_rate)

    @property
    def spec(self) -> ExampleSpec:
        """Encoder rows of one pair each, with a label."""
        return ExampleSpec(
            layout="encoder",
            fields=("weights", "token_types", "label"),
            label_loss="sentence_pairs",
            needs_sentences=True,
            fills_rows=True,
            num_copies=self.num_copies,
        )

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        require_frame(ids, min_tokens=2, limit=lengths.inputs, num_special=3)
        self.masking.check(ids)

    @abstractmethod
    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut a window into pairs; see ``Objective.cut``."""

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Frame and mask pairs; see ``Objective.make``."""
        del lengths
        framed = frame(texts, ids)
        return to_examples(framed, self.masking.mask(framed, seeds, ids), pairs=True)


def require_masking(masking: Masking) -> None:
    """Check that a value is an instance of ``Masking``.

    Raises:
      ValueError: It isn't; the message lists the classes.
    """
    if not fits(masking, Masking):
        raise ValueError(
            f"masking must be TokenMasking(), SpanMasking() or KnowledgeMasking(), got {masking!r}; in gin "
            "@word_masking.TokenMasking()"
        )


def require_shares(**shares: float) -> None:
    """Check that rates, given by name, lie between 0 and 1.

    Raises:
      ValueError: One doesn't.
    """
    for name, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} must lie between 0 and 1, got {share}")
