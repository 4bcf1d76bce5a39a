"""Masked language modeling: predict masked tokens from both directions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from t5x_like.text.objectives.encoder_rows import SingleTexts, require_masking
from t5x_like.text.objectives.framing import frame, to_examples
from t5x_like.text.objectives.masking import Masking
from t5x_like.text.objectives.objective import Example, Lengths, Text
from t5x_like.text.objectives.word_masking import TokenMasking
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


@dataclass(frozen=True, kw_only=True)
class MaskedLM(SingleTexts):
    """Masks tokens of one text, and predicts the originals.

    ``a b c d`` becomes inputs ``[CLS] a [MASK] c d [SEP]``, targets ``[CLS] a b c d [SEP]``, and weights ``0 0 1 0 0
    0``. An end of sequence separates documents that share a row.

    New masks are drawn in every epoch. ``num_copies`` = k makes them static, as BERT's (whose corpus held 10): every
    text has k masks, and epoch e repeats those of epoch e - k in another order.

    Devlin et al. 2019, §3.1, https://arxiv.org/abs/1810.04805; Liu et al. 2019, §4, https://arxiv.org/abs/1907.11692.

    Attributes:
      masking: Distribution of the masked tokens: ``TokenMasking`` (BERT, RoBERTa), ``SpanMasking`` (SpanBERT) or
        ``KnowledgeMasking`` (ERNIE).
    """

    masking: Masking = field(default_factory=TokenMasking)

    def __post_init__(self) -> None:
        require_masking(self.masking)
        super().__post_init__()

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
        return to_examples(framed, self.masking.mask(framed, seeds, ids))
