"""Log-likelihoods of whole texts, alone or after a context, by any model with an output layer over words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np

from t5x_like.evaluation.text_model import EncodedPrompt, TextModel
from t5x_like.inference.prompt_encoder import TextCodec
from t5x_like.inference.scorer import LikelihoodRequest, Scorer, masked_token_batch
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.run_weights import trained_to_predict_next
from t5x_like.text.heads.input_format import InputFormat, input_format_of
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

_NO_LIMIT = 1 << 30  # tokens


class ContextText(NamedTuple):
    """A text whose likelihood is wanted, and the text before it; empty for none."""

    context: str
    text: str

    @property
    def whole(self) -> str:
        """Both texts, with a space between them."""
        return f"{self.context} {self.text}" if self.context else self.text


class TextScorer(Protocol):
    """A model that scores texts."""

    def requests(self, texts: Sequence[ContextText]) -> list[LikelihoodRequest]:
        """Return the ids of each context, with special ones, and of its text."""
        ...

    def num_positions(self, request: LikelihoodRequest) -> int:
        """Return the tokens of the longest row that the model reads for a request."""
        ...

    def score(
        self, params: Parameters, requests: Sequence[LikelihoodRequest], *, batch_size: int, limit: int
    ) -> np.ndarray:
        """Return the log-likelihood of each text in nats, float64 [N].

        Args:
          params: Weights.
          requests: At most ``batch_size`` texts.
          batch_size: Rows of a compiled batch.
          limit: Longest row in tokens.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class ModelTextScorer:
    """Scores texts by a decoder, or by an encoder-decoder whose encoder reads the context.

    A decoder's first token is predicted from the id that begins or ends its texts. An encoder-decoder's text ends
    with an end of sequence, as its targets do.

    Attributes:
      model: The model.
    """

    model: TextModel

    def requests(self, texts: Sequence[ContextText]) -> list[LikelihoodRequest]:
        model = self.model
        contexts = [each.context for each in texts]
        prompts = [
            EncodedPrompt(np.array(model.prompt_encoder.with_special_ids(ids), np.int32), context)
            for context, ids in zip(contexts, model.tokenizer.encode_all(contexts), strict=True)
        ]
        answers = [" " * bool(each.context and model.continues) + each.text for each in texts]
        return model.requests(prompts, answers, length=_NO_LIMIT, separator="")

    def num_positions(self, request: LikelihoodRequest) -> int:
        sizes = len(request.prompt), len(request.target)
        return sum(sizes) - 1 if self.model.is_decoder else max(sizes)

    def score(
        self, params: Parameters, requests: Sequence[LikelihoodRequest], *, batch_size: int, limit: int
    ) -> np.ndarray:
        return self.model.score(params, requests, batch_size=batch_size, limit=limit).log_likelihoods


@dataclass(frozen=True, kw_only=True)
class MaskedTextScorer:
    """Scores texts by the pseudo-log-likelihood of an encoder with masked language modeling.

    Each token of a text is masked in a row of its own, and predicted from all others and the context (Salazar et al.
    2020, section 2.2, https://arxiv.org/abs/1910.14659).

    Attributes:
      tokenizer: Text to ids.
      input_format: Special ids around a text.
      scorer: Compiled scorer of batches.
      mask_id: Id of the mask.
      offset: Positions from a mask back to its prediction; 1 for masked next-token prediction.
    """

    tokenizer: TextCodec
    input_format: InputFormat
    scorer: Scorer = field(repr=False)
    mask_id: int
    offset: int = 0

    @classmethod
    def of_checkpoint(cls, checkpoint: Checkpoint) -> "MaskedTextScorer":
        """Make a scorer that reads texts as the encoder's masked language modeling does.

        Raises:
          ValueError: The vocabulary has no mask.
        """
        mask_id = ids_of(checkpoint.tokenizer).mask
        if mask_id is None:
            raise ValueError(
                f"the vocabulary of {checkpoint.directory} has no [MASK], by which an encoder scores texts"
            )
        return cls(
            tokenizer=checkpoint.tokenizer,
            input_format=input_format_of(checkpoint.tokenizer, _NO_LIMIT),
            scorer=Scorer(checkpoint.graphdef, checkpoint.mesh, vocab_size=checkpoint.config.vocab_size),
            mask_id=mask_id,
            offset=int(trained_to_predict_next(checkpoint.directory)),
        )

    def requests(self, texts: Sequence[ContextText]) -> list[LikelihoodRequest]:
        contexts = self.tokenizer.encode_all([each.context for each in texts])
        whole = self.tokenizer.encode_all([each.whole for each in texts])
        start = self.input_format.start
        return [
            LikelihoodRequest([*start, *both[: len(context)]], both[len(context) :])
            for context, both in zip(contexts, whole, strict=True)
        ]

    def num_positions(self, request: LikelihoodRequest) -> int:
        return len(request.prompt) + len(request.target) + len(self.input_format.end)

    def score(
        self, params: Parameters, requests: Sequence[LikelihoodRequest], *, batch_size: int, limit: int
    ) -> np.ndarray:
        sums = np.zeros(len(requests))
        rows = self._masked_rows(requests)
        while group := list(islice(rows, batch_size)):
            batch = masked_token_batch(
                [(ids, position) for _, ids, position in group],
                mask_id=self.mask_id,
                offset=self.offset,
                batch_size=batch_size,
                limit=limit,
            )
            scored = self.scorer(params, batch).log_likelihoods[: len(group)]
            np.add.at(sums, [index for index, _, _ in group], scored)
        return sums

    def _masked_rows(self, requests: Sequence[LikelihoodRequest]) -> Iterator[tuple[int, np.ndarray, int]]:
        """Yield the index of the text, the ids of a row, and the position to mask."""
        for index, (before, text) in enumerate(requests):
            ids = np.array([*before, *text, *self.input_format.end], np.int32)
            for position in range(len(before), len(before) + len(text)):
                yield index, ids, position
