"""Masked language modelling: words are hidden, and predicted from both sides."""

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
    """Hides words of one segment, and predicts what stood there.

    ``a b c d`` becomes inputs ``[CLS] a [MASK] c d [SEP]``, targets ``[CLS] a b c d [SEP]``, and weights ``0 0 1 0 0
    0``. An end of sequence stands between documents that share a row.

    ``masking`` says what is hidden: ``TokenMasking`` (BERT, RoBERTa), ``SpanMasking`` (SpanBERT) or
    ``KnowledgeMasking`` (ERNIE). Masks are drawn anew in every epoch; with ``num_copies`` = k they are static, as
    BERT's: every text has k masks, and epoch e shows those of epoch e - k again (in another order). Its corpus held 10.

    Devlin et al. 2019, §3.1, https://arxiv.org/abs/1810.04805; Liu et al. 2019, §4, https://arxiv.org/abs/1907.11692.
    """

    masking: Masking = field(default_factory=TokenMasking)

    def __post_init__(self) -> None:
        require_masking(self.masking)
        super().__post_init__()

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """See ``Objective.check``."""
        super().check(lengths, ids)
        self.masking.check(ids)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Frames and masks texts together."""
        del lengths
        framed = frame(texts, ids)
        return to_examples(framed, self.masking.mask(framed, seeds, ids))
