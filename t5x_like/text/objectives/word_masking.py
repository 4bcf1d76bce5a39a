"""What masks of words share: how much is masked, in which units, and what stands there instead."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.framing import FramedTexts, MaskedTexts
from t5x_like.text.objectives.masking import (
    replace,
    require_rates,
    require_words,
    token_starts,
    word_starts,
)
from t5x_like.text.vocabularies.ids import VocabularyIds


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
