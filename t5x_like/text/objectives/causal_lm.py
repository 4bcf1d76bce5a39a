"""GPT's language model: each token from those before it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from t5x_like.text.objectives.cutting import cut_documents, cut_runs
from t5x_like.text.objectives.objective import Cuts, Example, Lengths, Text, Traits, Window
from t5x_like.text.vocabularies.ids import Ids


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
    def traits(self) -> Traits:
        """A decoder's, which reads tokens as they stand."""
        return Traits(layout="decoder", fields=("inputs",), ends_documents=True)

    def check(self, lengths: Lengths, ids: Ids) -> None:
        """See ``Objective.check``."""
        del lengths
        if self.begin_with == "bos" and ids.bos is None:
            raise ValueError(
                "begin_with='bos' needs a beginning of sequence, which the vocabulary lacks; use begin_with='eos', or "
                "raise num_sentinels so that one can be lent"
            )

    def cut(self, window: Window, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Even runs over all documents of the window, or parts of each; the token before goes along."""
        del key
        if self.isolate_documents:
            return _with_token_before(window, cut_documents(window, lengths.targets))
        return _with_token_before(window, cut_runs(window, lengths.targets, together=None))

    def make(self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: Ids) -> list[Example]:
        """All but the last token in, all but the first one out."""
        del seeds, lengths
        examples = []
        for text in texts:
            inputs = text.tokens[:-1]
            if self.begin_with == "bos":
                inputs = np.where(inputs == ids.eos, np.int32(ids.bos or 0), inputs)
            examples.append(Example(inputs=inputs, targets=text.tokens[1:]))
        return examples

    def preprocessors(self) -> Sequence[Callable[..., Any]]:
        """The same through seqio."""
        from t5x_like.text.seqio_bridge.objective_preprocessors import as_preprocessors

        return as_preprocessors(self)


def _with_token_before(window: Window, cuts: Cuts) -> Cuts:
    """Texts that begin with the token before them: of the window's first text its last token, an end of sequence."""
    before = (cuts.starts - 1) % max(len(window.tokens), 1)
    return Cuts(np.hstack([before, cuts.starts]), np.hstack([before + 1, cuts.ends]), cuts.labels)
