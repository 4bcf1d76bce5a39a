"""Transformer-XL's language model: rows continue the same rows of the previous batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.objectives.objective import (
    Cuts,
    DocumentWindow,
    Example,
    ExampleSpec,
    Lengths,
    StreamRow,
    Text,
)
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


@dataclass(frozen=True, kw_only=True)
class ContiguousLM:
    """Predicts every token from the previous ones, including those of earlier batches that the model remembers.

    All documents of an epoch, each followed by an end of sequence, form one long text. It is cut into as many streams
    as a batch has rows (``batches/recurrent_source.py``). ``a b c d e f g h`` in two rows of two gives ``a b`` and ``e
    f``, then ``c d`` and ``g h``. Each row reads the token before its first target, as in ``CausalLM``.

    ``Batch.continues`` is 0 at the start of a stream. With seqio, which has no streams, it is always 0.

    Dai et al. 2019, §3.2, https://arxiv.org/abs/1901.02860.

    Attributes:
      begin_with: Token read before a document; see ``CausalLM``.
      backward: Predict every token from the following ones: documents are read from their end (Howard and Ruder 2018,
        §3, https://arxiv.org/abs/1801.06146).
    """

    begin_with: Literal["eos", "bos"] = "eos"
    backward: bool = False

    def __post_init__(self) -> None:
        CausalLM(begin_with=self.begin_with)  # validates the argument

    @property
    def _by_row(self) -> CausalLM:
        return CausalLM(begin_with=self.begin_with)

    @property
    def spec(self) -> ExampleSpec:
        """Decoder rows in the order of their streams."""
        return ExampleSpec(
            layout="decoder",
            fields=("inputs", "continues"),
            ends_documents=True,
            fills_rows=True,
            contiguous=True,
        )

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        self._by_row.check(lengths, ids)

    def stream(self, lengths: Lengths) -> StreamRow:
        """Return what each row reads of its stream: as many tokens as it predicts."""
        return StreamRow(step=lengths.targets, backward=self.backward)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut runs over all documents of the window, as one stream; see ``Objective.cut``.

        Raises:
          ValueError: The stream would be backward; only ``RecurrentSource`` reads documents from their end.
        """
        if self.backward:
            raise ValueError(
                "ContiguousLM(backward=True) through seqio, which has no streams; train from the files of a "
                "PretrainingTask"
            )
        return self._by_row.cut(window, lengths, key)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Shift texts by one token; see ``Objective.make``."""
        return self._by_row.make(texts, seeds, lengths, ids)
