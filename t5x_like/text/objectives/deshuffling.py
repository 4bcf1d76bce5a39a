"""T5's deshuffling: the words of a text in any order, to be put right."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.denoising import Denoising
from t5x_like.text.objectives.noise import IidNoise
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

ALL_SHUFFLED = Denoising(noise=IidNoise(noise_density=1.0), inputs="shuffled", targets="text")


@dataclass(frozen=True, kw_only=True)
class Deshuffling:
    """``a b c d`` becomes inputs ``c a d b``, in any order, and targets ``a b c d``.

    Denoising where all is noise and noise changes places.

    Raffel et al. 2020, §3.3.1, https://arxiv.org/abs/1910.10683; after Liu et al. 2019,
    https://arxiv.org/abs/1910.00998.
    """

    @property
    def spec(self) -> ExampleSpec:
        """T5 joins documents without a mark."""
        return ALL_SHUFFLED.spec

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """See ``Objective.check``."""
        ALL_SHUFFLED.check(lengths, ids)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Even runs over 128 documents."""
        return ALL_SHUFFLED.cut(window, lengths, key)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Shuffles texts, those of one length together."""
        return ALL_SHUFFLED.make(texts, seeds, lengths, ids)
