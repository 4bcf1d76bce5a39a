"""GPT's language model: each token from those before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from t5x_like.text.objectives.cutting import cut_documents, cut_runs
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

# Examples of supervised fine-tuning, as ``answers_only`` makes them.
SFT_SPEC = ExampleSpec(layout="decoder", fields=("inputs", "weights"))


@dataclass(frozen=True, kw_only=True)
class CausalLM:
    """Every token of joined documents is predicted once, from what stands before it in its row.

    An end of sequence stands after each document. Of documents ``a b`` and ``c d``, rows of three are: inputs
    ``</s> a b`` with targets ``a b </s>``, then inputs ``</s> c d`` with targets ``c d </s>``: a row reads the token
    before its first target, which for a document's first token is the end of the one before. With
    ``begin_with="bos"`` it reads a beginning of sequence in that place instead (Llama).

    With ``isolate_documents`` the parts of documents are examples of their own: attention and positions stop at
    their borders, and short ones share a row.

    Radford et al. 2018, §3.1; Brown et al. 2020, §2.2 (documents joined without special masks),
    https://arxiv.org/abs/2005.14165. Isolated as in Llama 3, https://arxiv.org/abs/2407.21783, §3.2.
    """

    isolate_documents: bool = False
    begin_with: Literal["eos", "bos"] = "eos"

    def __post_init__(self) -> None:
        if self.begin_with not in ("eos", "bos"):
            raise ValueError(f"begin_with must be 'eos' or 'bos', got {self.begin_with!r}")

    @property
    def spec(self) -> ExampleSpec:
        """A decoder's, which reads tokens as they stand."""
        return ExampleSpec(layout="decoder", fields=("inputs",), ends_documents=True)

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """See ``Objective.check``."""
        del lengths
        if self.begin_with == "bos" and ids.bos is None:
            raise ValueError(
                "begin_with='bos' needs a beginning of sequence, which the vocabulary lacks; use begin_with='eos', or "
                "raise num_sentinels so that one can be lent"
            )

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Even runs over all documents of the window, or parts of each; the token before goes along."""
        del key
        if self.isolate_documents:
            return with_token_before(window, cut_documents(window, lengths.targets))
        return with_token_before(window, cut_runs(window, lengths.targets, together=None))

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """All but the last token in, all but the first one out."""
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


def with_token_before(window: DocumentWindow, cuts: Cuts) -> Cuts:
    """Texts that begin with the token before them: of the window's first text its last token, an end of sequence."""
    before = (cuts.starts - 1) % max(len(window.tokens), 1)
    return Cuts(np.hstack([before, cuts.starts]), np.hstack([before + 1, cuts.ends]), cuts.labels)


def answers_only(tokens: np.ndarray, answers: np.ndarray, *, limit: int) -> Example:
    """Predicts each token from those before it; tokens of answers have loss weight 1, others 0.

    ``tokens`` int32 [L]; ``answers`` [2 N], where each answer begins and ends. The example has L - 1 targets, or the
    first ``limit``. Of ``q ? a b </s>`` with the answer from 2 on, inputs are ``q ? a b``, targets ``? a b </s>`` and
    weights ``0 1 1 1``.

    As in Ouyang et al. 2022, §3.5, https://arxiv.org/abs/2203.02155, with the loss on answers alone.
    """
    targets = tokens[1 : limit + 1].astype(np.int32)
    # An odd number of borders up to here: inside an answer.
    inside = np.searchsorted(answers, np.arange(1, len(targets) + 1), side="right") % 2
    return Example(
        inputs=tokens[: len(targets)].astype(np.int32), targets=targets, weights=inside.astype(np.float32)
    )
