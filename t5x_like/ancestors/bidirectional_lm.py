"""Language models of both directions: every token is predicted from those before it, and from those after it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.encoder_rows import InputFormat, SingleTexts
from t5x_like.text.objectives.framing import frame, require_ids, rows_to_examples
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_NUM_SPECIAL = 2


@dataclass(frozen=True, kw_only=True)
class BidirectionalLM:
    """Predicts every token of a text twice, by a model whose directions don't see what they predict.

    ``a b`` becomes inputs and targets ``[CLS] a b [SEP]`` with weights ``0.5 1 1 0.5``: both ends are predicted in one
    direction only. ``[CLS]`` and ``[SEP]`` have the characters of ELMo's boundaries of sentences.

    Peters et al. 2018, §3.1, https://arxiv.org/abs/1802.05365.

    Attributes:
      input_format: Content of a text; see ``InputFormat``. With a sentence in each line of a corpus, ``"documents"``
        has one sentence in each text, and packing puts several texts into a row.
    """

    input_format: InputFormat = "documents"

    def __post_init__(self) -> None:
        self._rows  # noqa: B018 - checks the argument

    @property
    def _rows(self) -> SingleTexts:
        return SingleTexts(input_format=self.input_format)

    @property
    def spec(self) -> ExampleSpec:
        """Encoder rows that packing may combine."""
        return self._rows.spec._replace(shows_targets=True)

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        require_ids({"cls": ids.cls, "sep": ids.sep})
        if lengths.inputs <= _NUM_SPECIAL:
            raise ValueError(
                f"inputs_length of {lengths.inputs} holds the special ids of a text alone; set it to "
                f"{_NUM_SPECIAL + 1} or more"
            )

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut texts of the input format; see ``Objective.cut``."""
        return self._rows.cut(window, lengths, key)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Frame texts; see ``Objective.make``."""
        del seeds, lengths
        framed = frame(texts, ids)
        weights = np.ones(framed.tokens.shape, np.float32)
        weights[:, 0] = 0.5
        weights[np.arange(len(texts)), framed.lengths - 1] = 0.5
        return rows_to_examples(framed.lengths, inputs=framed.tokens, targets=framed.tokens, weights=weights)
