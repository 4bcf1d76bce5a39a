"""Transformer-XL's language model: rows that go on where the same row of the batch before ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


@dataclass(frozen=True, kw_only=True)
class ContiguousLM:
    """Every token is predicted from those before it, of earlier batches too: the model remembers them.

    All documents of an epoch, an end of sequence after each, are one long text, cut into as many streams as a batch
    has rows (``batches/contiguous.py``). Of ``a b c d e f g h`` two rows of two are first ``a b`` and ``e f``, then
    ``c d`` and ``g h``. Each row reads the token before its first target, as in ``CausalLM``.

    ``Batch.continues`` is 0 where a stream starts. Through seqio, which has no streams, it is always 0.

    Dai et al. 2019, §3.2, https://arxiv.org/abs/1901.02860.
    """

    begin_with: Literal["eos", "bos"] = "eos"

    def __post_init__(self) -> None:
        CausalLM(begin_with=self.begin_with)  # refuses the same

    @property
    def _by_row(self) -> CausalLM:
        return CausalLM(begin_with=self.begin_with)

    @property
    def spec(self) -> ExampleSpec:
        """Rows of a decoder, each in its stream's order."""
        return ExampleSpec(
            layout="decoder",
            fields=("inputs", "continues"),
            ends_documents=True,
            fills_rows=True,
            contiguous=True,
        )

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """See ``Objective.check``."""
        self._by_row.check(lengths, ids)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Even runs over all documents of the window: one stream."""
        return self._by_row.cut(window, lengths, key)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """All but the last token in, all but the first one out."""
        return self._by_row.make(texts, seeds, lengths, ids)
