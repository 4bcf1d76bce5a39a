"""Maskings of tokens, words, n-grams and spans."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.framing import FramedTexts, MaskedTexts
from t5x_like.text.objectives.masking import (
    choose_units,
    ngram_starts,
    num_targets,
    replace_targets,
    require_rates,
    require_words,
    token_starts,
    unit_numbers,
    word_starts,
)
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


@dataclass(frozen=True, kw_only=True)
class WordMasking(ABC):
    """Base of maskings.

    Attributes:
      noise_density: Fraction of a row's tokens to predict.
      mask_rate: Fraction of these that become the mask.
      random_rate: Fraction of these that become a random token; the others stay as they are.
      whole_words: Mask all pieces of a word or none.
    """

    noise_density: float = 0.15
    mask_rate: float = 0.8
    random_rate: float = 0.1
    whole_words: bool = True

    def __post_init__(self) -> None:
        require_rates(self.noise_density, self.mask_rate, self.random_rate)

    def check(self, ids: VocabularyIds) -> None:
        """Check that the vocabulary suits the masking; see ``Masking.check``."""
        if self.whole_words:
            require_words(ids)

    @abstractmethod
    def mask(self, framed: FramedTexts, seeds: np.ndarray, ids: VocabularyIds) -> MaskedTexts:
        """Mask rows; see ``Masking.mask``."""

    def _starts(self, framed: FramedTexts, ids: VocabularyIds) -> np.ndarray:
        """Return the starts of words or of tokens, bool [N, M]."""
        return word_starts(framed, ids) if self.whole_words else token_starts(framed)

    def _masked(
        self,
        framed: FramedTexts,
        is_target: np.ndarray,
        seeds: np.ndarray,
        ids: VocabularyIds,
        *,
        units: np.ndarray | None = None,
    ) -> MaskedTexts:
        rates = {"mask_rate": self.mask_rate, "random_rate": self.random_rate}
        return replace_targets(framed, is_target, seeds, ids, units=units, **rates)


@dataclass(frozen=True, kw_only=True)
class TokenMasking(WordMasking):
    """Masks ``noise_density`` of the tokens of a row: ``a b c d`` becomes ``a [MASK] c d``, and ``b`` is predicted.

    Exactly max(1, round(noise_density · length)) tokens are predicted, special ids counted in the length; fewer if no
    further word fits.

    Devlin et al. 2019, §3.1 and appendix A.1, https://arxiv.org/abs/1810.04805; whole words and n-grams as in
    https://github.com/google-research/bert (May 2019) and Lan et al. 2020, §4.1, https://arxiv.org/abs/1909.11942.

    Attributes:
      whole_words: Mask all pieces of a word or none.
      max_ngram: Maximum number of adjacent words masked together; n words have a probability ∝ 1/n (ALBERT's is 3).
    """

    whole_words: bool = False
    max_ngram: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_ngram < 1:
            raise ValueError(f"max_ngram must be at least 1, got {self.max_ngram}")

    def mask(self, framed: FramedTexts, seeds: np.ndarray, ids: VocabularyIds) -> MaskedTexts:
        """Mask rows; see ``Masking.mask``."""
        starts = self._starts(framed, ids)
        if self.max_ngram > 1:
            starts = ngram_starts(starts, 1 / np.arange(1, self.max_ngram + 1), framed, seeds)
        is_target = choose_units(starts, num_targets(framed, self.noise_density), framed, seeds)
        return self._masked(framed, is_target, seeds, ids)


@dataclass(frozen=True, kw_only=True)
class SpanMasking(WordMasking):
    """Masks spans of words: ``a b c d e`` becomes ``a [MASK] [MASK] [MASK] e``.

    All words of a span are treated in the same way: masked, replaced by random tokens, or kept. The last span is cut
    between words where the fraction to mask is reached. The span boundary objective uses the same examples; see
    ``model/span_boundary.py``.

    Joshi et al. 2020, §3.1, https://arxiv.org/abs/1907.10529.

    >>> round(float(SpanMasking().shares() @ np.arange(1, 11)), 1)
    3.8

    Attributes:
      p: Parameter of the geometric distribution: n words have a probability ∝ ``p (1 - p)^(n - 1)``.
      max_span: Maximum number of words of a span.
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
        """Return the probabilities of 1, 2, 3 … words, float64 [max_span]."""
        shares = self.p * (1 - self.p) ** np.arange(self.max_span)
        return shares / shares.sum()

    def mask(self, framed: FramedTexts, seeds: np.ndarray, ids: VocabularyIds) -> MaskedTexts:
        """Mask rows; see ``Masking.mask``."""
        words = self._starts(framed, ids)
        spans = ngram_starts(words, self.shares(), framed, seeds)
        is_target = choose_units(
            spans, num_targets(framed, self.noise_density), framed, seeds, divisible_at=words
        )
        return self._masked(framed, is_target, seeds, ids, units=unit_numbers(spans))
