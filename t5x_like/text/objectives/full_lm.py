"""T5's language model: a decoder reads documents one after the other, and foretells every token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.cutting import cut_runs
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


@dataclass(frozen=True, kw_only=True)
class FullLM:
    """Documents ``a b`` and ``c d e`` become targets ``a b </s> c``, ``d e </s>``, with rows of four tokens.

    An end of sequence stands after each document and nowhere else: rows are cut wherever they are full.

    Raffel et al. 2020, §3.2.1, https://arxiv.org/abs/1910.10683.
    """

    @property
    def spec(self) -> ExampleSpec:
        """For decoders."""
        return ExampleSpec(layout="decoder", ends_documents=True)

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """See ``Objective.check``."""
        if lengths.targets < 2:
            raise ValueError(f"targets_length of {lengths.targets} leaves nothing to read; use at least 2")
        if ids.eos is None:
            raise ValueError("the vocabulary has no end of sequence, which stands between documents")

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Even runs over 128 documents with their ends."""
        del key
        return cut_runs(window, lengths.targets)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Texts as they are."""
        del seeds, lengths, ids
        return [Example(targets=text.tokens) for text in texts]
