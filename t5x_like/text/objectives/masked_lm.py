"""Masked language modeling: predict masked tokens from both directions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from t5x_like.text.objectives.encoder_rows import SingleTexts, require_masking
from t5x_like.text.objectives.framing import frame, to_examples
from t5x_like.text.objectives.masking import Masking
from t5x_like.text.objectives.objective import Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.word_masking import TokenMasking
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

PredictedFrom = Literal["mask", "previous"]


@dataclass(frozen=True, kw_only=True)
class MaskedLM(SingleTexts):
    """Masks tokens of one text, and predicts the originals.

    ``a b c d`` becomes inputs ``[CLS] a [MASK] c d [SEP]``, targets ``[CLS] a b c d [SEP]``, and weights ``0 0 1 0 0
    0``. An end of sequence separates documents that share a row.

    New masks are drawn in every epoch. ``num_copies`` = k makes them static, as BERT's (whose corpus held 10): every
    text has k masks, and epoch e repeats those of epoch e - k in another order.

    An encoder that was a decoder has learned to predict the token after each one. With ``predicted_from="previous"``
    the output before a mask predicts the token: targets ``a b c d [SEP] …``, and weights ``0 1 0 0 0 0`` (masked next
    token prediction).

    Devlin et al. 2019, §3.1, https://arxiv.org/abs/1810.04805; Liu et al. 2019, §4, https://arxiv.org/abs/1907.11692;
    BehnamGhader et al. 2024, §2.1, https://arxiv.org/abs/2404.05961.

    Attributes:
      masking: Distribution of the masked tokens: ``TokenMasking`` (BERT, RoBERTa), ``SpanMasking`` (SpanBERT) or
        ``KnowledgeMasking`` (ERNIE).
      predicted_from: Output that predicts a token: that of its own position, or of the one before it.
    """

    masking: Masking = field(default_factory=TokenMasking)
    predicted_from: PredictedFrom = "mask"

    def __post_init__(self) -> None:
        require_masking(self.masking)
        if self.predicted_from not in get_args(PredictedFrom):
            raise ValueError(
                f"predicted_from must be one of {', '.join(get_args(PredictedFrom))}, got {self.predicted_from!r}"
            )
        super().__post_init__()

    @property
    def spec(self) -> ExampleSpec:
        """Encoder rows whose targets may be those of the next position."""
        return super().spec._replace(predicts_next=self.predicted_from == "previous")

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        super().check(lengths, ids)
        self.masking.check(ids)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Frame and mask texts; see ``Objective.make``."""
        del lengths
        framed = frame(texts, ids)
        masked = self.masking.mask(framed, seeds, ids)
        if self.predicted_from == "previous":  # the first token, [CLS], is never a target
            framed = framed._replace(tokens=np.roll(framed.tokens, -1, axis=1))
            masked = masked._replace(is_target=np.roll(masked.is_target, -1, axis=1))
        return to_examples(framed, masked)
