"""Language models of decoders: every token is predicted from the previous ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from t5x_like.text.objectives.cutting import cut_documents, cut_runs
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

# Examples of supervised fine-tuning, built by ``answers_only``.
SFT_SPEC = ExampleSpec(layout="decoder", fields=("inputs", "weights"))


@dataclass(frozen=True, kw_only=True)
class CausalLM:
    """Predicts every token of joined documents once, from the previous tokens of its row.

    Each document is followed by an end of sequence. Documents ``a b`` and ``c d`` in rows of three give inputs
    ``</s> a b`` with targets ``a b </s>``, then inputs ``</s> c d`` with targets ``c d </s>``. A row reads the token
    before its first target; for a document's first token, that is the end of the previous document.

    Radford et al. 2018, §3.1; Brown et al. 2020, §2.2 (documents joined without special masks),
    https://arxiv.org/abs/2005.14165. Isolated as in Llama 3, https://arxiv.org/abs/2407.21783, §3.2.

    Attributes:
      isolate_documents: Make parts of documents separate examples. Attention and positions then stop at document
        borders, and packing puts short documents into one row.
      begin_with: Token read before a document: the previous document's end, or a beginning of sequence (Llama).
    """

    isolate_documents: bool = False
    begin_with: Literal["eos", "bos"] = "eos"

    def __post_init__(self) -> None:
        if self.begin_with not in ("eos", "bos"):
            raise ValueError(f"begin_with must be 'eos' or 'bos', got {self.begin_with!r}")

    @property
    def spec(self) -> ExampleSpec:
        """Decoder examples with explicit inputs."""
        return ExampleSpec(layout="decoder", fields=("inputs",), ends_documents=True)

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check that the vocabulary has the id to begin with; see ``Objective.check``."""
        del lengths
        if self.begin_with == "bos" and ids.bos is None:
            raise ValueError(
                "begin_with='bos' needs a beginning of sequence, which the vocabulary lacks; use begin_with='eos', or "
                "raise num_sentinels so that a sentinel can take its place"
            )

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut runs over all documents of the window, or parts of each, together with the token before them."""
        del key
        if self.isolate_documents:
            return prepend_previous_token(window, cut_documents(window, lengths.targets))
        return prepend_previous_token(window, cut_runs(window, lengths.targets, together=None))

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Shift texts by one token; see ``Objective.make``."""
        del seeds, lengths
        examples = []
        for text in texts:
            inputs = text.tokens[:-1]
            if self.begin_with == "bos":
                inputs = np.where(inputs == ids.eos, np.int32(ids.bos or 0), inputs)
            examples.append(Example(inputs=inputs, targets=text.tokens[1:]))
        return examples


@dataclass(frozen=True, kw_only=True)
class FullLM:
    """T5's language model: a decoder predicts every token of joined documents, in rows of full length.

    Documents ``a b`` and ``c d e`` become targets ``a b </s> c``, ``d e </s>`` in rows of four tokens. Each document
    is followed by an end of sequence; rows themselves don't get one.

    Raffel et al. 2020, §3.2.1, https://arxiv.org/abs/1910.10683.
    """

    @property
    def spec(self) -> ExampleSpec:
        """Decoder examples without explicit inputs."""
        return ExampleSpec(layout="decoder", ends_documents=True)

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        if lengths.targets < 2:
            raise ValueError(f"targets_length of {lengths.targets} leaves nothing to read; use at least 2")
        if ids.eos is None:
            raise ValueError("the vocabulary has no end of sequence, which must separate documents")

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut runs of equal length from 128 joined documents at a time; see ``Objective.cut``."""
        del key
        return cut_runs(window, lengths.targets)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Return texts as targets; see ``Objective.make``."""
        del seeds, lengths, ids
        return [Example(targets=text.tokens) for text in texts]


def prepend_previous_token(window: DocumentWindow, cuts: Cuts) -> Cuts:
    """Extend each text by the token before it; the window's first text gets its last token, an end of sequence.

    Args:
      window: Concatenated documents.
      cuts: Offsets of the texts.
    """
    before = (cuts.starts - 1) % max(len(window.tokens), 1)
    return Cuts(np.hstack([before, cuts.starts]), np.hstack([before + 1, cuts.ends]), cuts.labels)


def answers_only(tokens: np.ndarray, answers: np.ndarray, *, limit: int) -> Example:
    """Build an example whose loss counts answer tokens only, for supervised fine-tuning.

    For ``q ? a b </s>`` with the answer from 2 on, inputs are ``q ? a b``, targets ``? a b </s>`` and weights ``0 1 1
    1``. As in Ouyang et al. 2022, §3.5, https://arxiv.org/abs/2203.02155, but without loss on prompts.

    Args:
      tokens: Prompts and answers, int32 [L].
      answers: Start and end of each answer, flat and ascending [2 N].
      limit: Maximum number of targets; there are L - 1 otherwise.
    """
    targets = tokens[1 : limit + 1].astype(np.int32)
    # Positions after an odd number of borders lie inside an answer.
    inside = np.searchsorted(answers, np.arange(1, len(targets) + 1), side="right") % 2
    return Example(
        inputs=tokens[: len(targets)].astype(np.int32), targets=targets, weights=inside.astype(np.float32)
    )
