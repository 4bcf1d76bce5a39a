"""BERT's masks: tokens, whole words, or n-grams."""

from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.framing import FramedTexts, MaskedTexts
from t5x_like.text.objectives.masking import budgets, choose, joined_starts
from t5x_like.text.objectives.word_masking import WordMasking
from t5x_like.text.vocabularies.ids import VocabularyIds


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
