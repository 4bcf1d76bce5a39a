"""Texts in, texts and likelihoods out: a model's structure with its tokenizer, for weights that are given later."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from jax.sharding import Mesh

from t5x_like.evaluation.prompts import Prompt, Prompter
from t5x_like.inference.generator import GenerationConfig, Generator
from t5x_like.inference.length_batches import Ids
from t5x_like.inference.scorer import LikelihoodRequest, Likelihoods, Scorer, scoring_batch
from t5x_like.model import parameters
from t5x_like.model.families.encoder_decoder import EncoderDecoder
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.text.batches.batch_layout import SHIFTED_IN
from t5x_like.text.vocabularies.tokenizer import SpecialTokenIds


class TextCodec(Protocol):
    """Our tokenizers, and seqio's vocabularies behind ``seqio_bridge.evaluation_rows.SeqioCodec``."""

    @property
    def special(self) -> SpecialTokenIds: ...

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]: ...

    def decode(self, ids: list[int]) -> str: ...


class EncodedPrompt(NamedTuple):
    """A prompt that fits. ``cut`` tokens of the question and ``dropped`` examples before it did not."""

    ids: np.ndarray  # int32, special ids included
    text: str
    cut: int = 0
    dropped: int = 0


@dataclass(frozen=True, kw_only=True)
class TextModel:
    """A model that generates text and scores it.

    Attributes:
      start_id: the first id that an encoder-decoder's decoder reads.
      end_ids: each ends a text; the first one is written after a text.
      begin_id: begins every text that is read, if the model wants that.
      ends_prompts: whether prompts and answers end with an end of sequence, as in fine-tuning; encoder-decoders always
        read it.
    """

    graphdef: Any
    mesh: Mesh
    vocab_size: int
    is_decoder: bool
    tokenizer: TextCodec
    start_id: int
    end_ids: tuple[int, ...]
    begin_id: int | None
    ends_prompts: bool

    @classmethod
    def as_trained(cls, config: Any, mesh: Mesh, tokenizer: TextCodec) -> "TextModel":
        """A model of ours, which reads questions and writes answers in the form of its training examples.

        Raises:
          ValueError: the vocabulary has no end of sequence.
        """
        if tokenizer.special.eos is None:
            raise ValueError(f"{tokenizer} has no end of sequence, which targets need")
        graphdef, shapes, _ = parameters.abstract(config)
        is_decoder = not isinstance(parameters.merge(graphdef, shapes), EncoderDecoder)
        return cls(
            graphdef=graphdef,
            mesh=mesh,
            vocab_size=config.vocab_size,
            is_decoder=is_decoder,
            tokenizer=tokenizer,
            start_id=SHIFTED_IN,
            end_ids=(tokenizer.special.eos,),
            begin_id=SHIFTED_IN if is_decoder else None,
            ends_prompts=True,
        )

    @classmethod
    def of_checkpoint(cls, model: Checkpoint) -> "TextModel":
        """A run's or Hugging Face's model, which reads prompts as its own files say."""
        is_decoder = model.kind == "decoder"
        return cls(
            graphdef=model.graphdef,
            mesh=model.mesh,
            vocab_size=model.config.vocab_size,
            is_decoder=is_decoder,
            tokenizer=model.tokenizer,
            start_id=model.start_id,
            end_ids=model.end_ids,
            begin_id=model.begin_id,
            ends_prompts=not is_decoder,
        )

    def encode_prompts(
        self, prompter: Prompter, prompts: Sequence[Prompt], *, length: int
    ) -> list[EncodedPrompt]:
        """Ids of at most ``length``. Examples are dropped first, the farthest first; then the question is cut.

        It loses its end where an end of sequence follows it. A decoder's question loses its beginning instead, because
        its end asks for the answer.
        """
        texts = [prompter.write(prompt) for prompt in prompts]
        return [
            self._fit(prompter, prompt, text, ids, length)
            for prompt, text, ids in zip(prompts, texts, self.tokenizer.encode_all(texts), strict=True)
        ]

    def _fit(
        self, prompter: Prompter, prompt: Prompt, text: str, ids: list[int], length: int
    ) -> EncodedPrompt:
        room = length - len(self._with_special_ids([]))
        shown = len(prompt.examples)
        while len(ids) > room and shown:
            shown -= 1
            text = prompter.write(prompt, shown)
            (ids,) = self.tokenizer.encode_all([text])
        cut = max(len(ids) - room, 0)
        if cut:
            ids = ids[:room] if self.ends_prompts else ids[cut:]
        whole = np.array(self._with_special_ids(ids), np.int32)
        return EncodedPrompt(whole, text, cut, len(prompt.examples) - shown)

    def _with_special_ids(self, ids: list[int]) -> list[int]:
        begin = [] if self.begin_id is None else [self.begin_id]
        if self.ends_prompts:
            return [*begin, *ids, *self.end_ids[:1]]
        return begin + ids if begin or ids else list(self.end_ids[:1])

    def requests(
        self, prompts: Sequence[EncodedPrompt], answers: Sequence[str], *, length: int, joint: str = " "
    ) -> list[LikelihoodRequest]:
        """Each prompt with an answer of at most ``length`` ids.

        Where texts end with an end of sequence, so do answers. Otherwise prompt and answer are encoded together. The
        answer is what the prompt alone doesn't have, so that no piece is cut in two (Gao et al.,
        lm-evaluation-harness).
        """
        if self.ends_prompts:
            return [
                LikelihoodRequest(prompt.ids, [*ids[: length - 1], *self.end_ids[:1]])
                for prompt, ids in zip(prompts, self.tokenizer.encode_all(answers), strict=True)
            ]
        alone = self.tokenizer.encode_all([prompt.text for prompt in prompts])
        whole = self.tokenizer.encode_all(
            [prompt.text + joint + answer for prompt, answer in zip(prompts, answers, strict=True)]
        )
        return [
            LikelihoodRequest(prompt.ids, both[len(before) :][:length])
            for prompt, before, both in zip(prompts, alone, whole, strict=True)
        ]

    def generate(
        self,
        params: Any,
        prompts: Sequence[Ids],
        config: GenerationConfig,
        *,
        batch_size: int,
        limit: int,
        stop_ids: Sequence[int] = (),
    ) -> list[str]:
        """Texts that follow at most ``batch_size`` prompts, up to an end of sequence or one of ``stop_ids``."""
        ids = self._generator(
            params, prompts, config, end_ids=(*self.end_ids, *stop_ids), batch_size=batch_size, limit=limit
        )
        return [self.tokenizer.decode(row) for row in ids]

    def score(
        self, params: Any, requests: Sequence[LikelihoodRequest], *, batch_size: int, limit: int
    ) -> Likelihoods:
        """Likelihoods of at most ``batch_size`` requests.

        A decoder's prompt without a token is given one, after which nothing is asked.
        """
        whole = [
            request if len(request.prompt) else LikelihoodRequest([0], request.target) for request in requests
        ]
        batch = scoring_batch(
            whole, is_decoder=self.is_decoder, start_id=self.start_id, batch_size=batch_size, limit=limit
        )
        return Likelihoods(*(column[: len(requests)] for column in self.scorer(params, batch)))

    @functools.cached_property
    def _generator(self) -> Generator:
        return Generator(self.graphdef, self.mesh, is_decoder=self.is_decoder, start_id=self.start_id)

    @functools.cached_property
    def scorer(self) -> Scorer:
        """The compiled scorer of batches."""
        return Scorer(self.graphdef, self.mesh, vocab_size=self.vocab_size)
