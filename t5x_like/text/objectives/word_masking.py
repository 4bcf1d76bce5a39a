"""What masks of words share: how much is masked, in which units, and what stands there instead."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.framing import FramedTexts, MaskedTexts
from t5x_like.text.objectives.masking import (
    budgets,
    choose,
    joined_starts,
    replace,
    require_rates,
    require_words,
    token_starts,
    unit_numbers,
    word_starts,
)
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


@dataclass(frozen=True, kw_only=True)
class WordMasking(ABC):
    """Of ``noise_density`` of a row ``mask_rate`` are masked, ``random_rate`` another word, the rest as it was."""

    noise_density: float = 0.15
    mask_rate: float = 0.8
    random_rate: float = 0.1
    whole_words: bool = True

    def __post_init__(self) -> None:
        require_rates(self.noise_density, self.mask_rate, self.random_rate)

    def check(self, ids: VocabularyIds) -> None:
        """See ``Masking.check``."""
        if self.whole_words:
            require_words(ids)

    @abstractmethod
    def mask(self, framed: FramedTexts, seeds: np.ndarray, ids: VocabularyIds) -> MaskedTexts:
        """See ``Masking.mask``."""

    def _starts(self, framed: FramedTexts, ids: VocabularyIds) -> np.ndarray:
        """bool [N, M]: where words begin, or tokens."""
        return word_starts(framed, ids) if self.whole_words else token_starts(framed)

    def _masked(
        self,
        framed: FramedTexts,
        is_target: np.ndarray,
        seeds: np.ndarray,
        ids: VocabularyIds,
        *,
        alike: np.ndarray | None = None,
    ) -> MaskedTexts:
        rates = {"mask_rate": self.mask_rate, "random_rate": self.random_rate}
        return replace(framed, is_target, seeds, ids, alike=alike, **rates)


@dataclass(frozen=True, kw_only=True)
class TokenMasking(WordMasking):
    """Masks ``noise_density`` of the tokens of a row.

    Of these, ``mask_rate`` become the mask, ``random_rate`` another word, and the rest stay.

    ``a b c d`` becomes ``a [MASK] c d``, and ``b`` is predicted. With ``whole_words`` all pieces of a word are, or
    none. Up to ``max_ngram`` neighbours are masked together, ``n`` of them with a probability ∝ 1/n (ALBERT's is 3).

    Exactly max(1, round(noise_density · length)) tokens are predicted, special ids counted in the length; fewer where
    no other word fits.

    Devlin et al. 2019, §3.1 and appendix A.1, https://arxiv.org/abs/1810.04805; whole words and n-grams as in
    https://github.com/google-research/bert (May 2019) and Lan et al. 2020, §4.1, https://arxiv.org/abs/1909.11942.
    """

    whole_words: bool = False
    max_ngram: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_ngram < 1:
            raise ValueError(f"max_ngram must be at least 1, got {self.max_ngram}")

    def mask(self, framed: FramedTexts, seeds: np.ndarray, ids: VocabularyIds) -> MaskedTexts:
        """See ``Masking.mask``."""
        starts = self._starts(framed, ids)
        if self.max_ngram > 1:
            starts = joined_starts(starts, 1 / np.arange(1, self.max_ngram + 1), framed, seeds)
        is_target = choose(starts, budgets(framed, self.noise_density), framed, seeds)
        return self._masked(framed, is_target, seeds, ids)


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
