"""SpanBERT's masks: spans of whole words whose lengths are geometric."""

from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.framing import FramedTexts, MaskedTexts
from t5x_like.text.objectives.masking import budgets, choose, joined_starts, unit_numbers
from t5x_like.text.objectives.word_masking import WordMasking
from t5x_like.text.vocabularies.ids import VocabularyIds


@dataclass(frozen=True, kw_only=True)
class SpanMasking(WordMasking):
    """Masks ``noise_density`` of a row in spans of words.

    All words of a span are treated alike: masked, replaced by random words, or kept.

    ``a b c d e`` becomes ``a [MASK] [MASK] [MASK] e``. A span has n ≤ ``max_span`` words with a probability ∝
    ``p (1 - p)^(n - 1)``: 3.8 on average. The last one is cut, between words, where the share to be masked ends. The
    boundary objective needs no more than the targets: see ``model/span_boundary.py``.

    Joshi et al. 2020, §3.1, https://arxiv.org/abs/1907.10529.

    >>> round(float(SpanMasking().shares() @ np.arange(1, 11)), 1)
    3.8
    """

    p: float = 0.2
    max_span: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.p < 1.0:
            raise ValueError(f"p must lie between 0 and 1, got {self.p}")
        if self.max_span < 1:
            raise ValueError(f"max_span must be at least 1, got {self.max_span}")

    def shares(self) -> np.ndarray:
        """float64 [max_span]: how likely 1, 2, 3 … words are."""
        shares = self.p * (1 - self.p) ** np.arange(self.max_span)
        return shares / shares.sum()

    def mask(self, framed: FramedTexts, seeds: np.ndarray, ids: VocabularyIds) -> MaskedTexts:
        """See ``Masking.mask``."""
        words = self._starts(framed, ids)
        spans = joined_starts(words, self.shares(), framed, seeds)
        is_target = choose(spans, budgets(framed, self.noise_density), framed, seeds, divisible_at=words)
        return self._masked(framed, is_target, seeds, ids, alike=unit_numbers(spans))
