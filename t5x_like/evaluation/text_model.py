"""Text interface of a model: its structure with a tokenizer, for weights that are given to each call."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import Mesh

from t5x_like.audio.recording import Recording
from t5x_like.evaluation.prompts import Prompt, Prompter
from t5x_like.index_checks import check_token_ids
from t5x_like.inference.generator import GenerationConfig, Generator
from t5x_like.inference.length_batches import Ids
from t5x_like.inference.prompt_encoder import PromptEncoder, TextCodec
from t5x_like.inference.scorer import (
    LikelihoodRequest,
    Likelihoods,
    Scorer,
    masked_scoring_batch,
    scoring_batch,
)
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import num_virtual_tokens
from t5x_like.model.families.ensemble import first_member
from t5x_like.model.model_traits import learned_positions
from t5x_like.model.parameters import ModelConfig, Parameters
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.checkpoint import Checkpoint, family_of
from t5x_like.pretrained.initial_weights import check_length
from t5x_like.text.batches.batch_layout import SHIFTED_IN
from t5x_like.text.batches.loader_config import PrefixAttention
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

_ENCODER_DECODERS = ("encoder_decoder", "speech_encoder_decoder")


class EncodedPrompt(NamedTuple):
    """A prompt that fits the model.

    Attributes:
      ids: Token ids, int32, special ids included; or a recording.
      text: The prompt's text.
      cut: Tokens that were cut from the question.
      dropped: Few-shot examples that were dropped.
    """

    ids: np.ndarray | Recording
    text: str
    cut: int = 0
    dropped: int = 0


@dataclass(frozen=True, kw_only=True)
class TextModel:
    """A model that generates and scores text.

    Attributes:
      graphdef: Structure of the model.
      mesh: Devices.
      vocab_size: Size of the model's vocabulary.
      is_decoder: True for decoder-only models, False for encoder-decoders.
      prompt_encoder: Encoder of inputs. If they end with an end of sequence, as in fine-tuning, so do answers.
      start_id: First input id of an encoder-decoder's decoder; the mask of a generative encoder.
      end_ids: Ids that end a text; the first one is written after targets.
      is_encoder: True for generative encoders.
      depends_on_places: See ``StackConfig``; such encoders can't score answers.
      max_positions: Learned positions of a decoder, for prompt and answer together; None if nothing limits them.
    """

    graphdef: Any
    mesh: Mesh
    vocab_size: int
    is_decoder: bool
    prompt_encoder: PromptEncoder
    start_id: int
    end_ids: tuple[int, ...]
    is_encoder: bool = False
    depends_on_places: bool = False
    max_positions: int | None = None

    def __post_init__(self) -> None:
        encoder = self.prompt_encoder
        ids = (self.start_id, *self.end_ids, *encoder.prefix_ids, *encoder.suffix_ids)
        check_token_ids(ids, f"the special ids of {self.tokenizer}", self.vocab_size)

    @property
    def tokenizer(self) -> TextCodec:
        """Text to ids and back."""
        return self.prompt_encoder.tokenizer

    @property
    def continues(self) -> bool:
        """True for a decoder whose prompts have no end: it continues their text."""
        return self.is_decoder and not self.prompt_encoder.suffix_ids

    @classmethod
    def as_trained(
        cls,
        config: CommonConfig,
        mesh: Mesh,
        tokenizer: TextCodec,
        *,
        prefix_attention: PrefixAttention = "bidirectional",
    ) -> "TextModel":
        """Make a model that reads and writes in the form of its training examples here.

        Args:
          config: Model configuration.
          mesh: Devices.
          tokenizer: The task's tokenizer.
          prefix_attention: That of a decoder's training data. With "causal", rows begin with the prompt itself.
            Otherwise ``SHIFTED_IN`` comes before it.

        Raises:
          ValueError: The vocabulary has no end of sequence.
        """
        graphdef, shapes, _ = parameters.abstract(config)
        model = first_member(parameters.merge(graphdef, shapes))
        family = family_of(model)
        start, end, prefix = SHIFTED_IN, tokenizer.special.eos, (SHIFTED_IN,)
        if family == "encoder":
            ids = ids_of(tokenizer)
            start, end, prefix = ids.mask, ids.sep, () if ids.cls is None else (ids.cls,)
        elif family in _ENCODER_DECODERS or prefix_attention == "causal":
            prefix = ()
        if end is None or start is None:
            raise ValueError(f"{tokenizer} has no end of sequence, which targets need")
        return cls(
            graphdef=graphdef,
            mesh=mesh,
            vocab_size=config.vocab_size,
            is_decoder=family not in ("encoder", *_ENCODER_DECODERS),
            max_positions=_learned_positions(model, config),
            prompt_encoder=PromptEncoder(tokenizer=tokenizer, prefix_ids=prefix, suffix_ids=(end,)),
            start_id=start,
            end_ids=(end,),
            is_encoder=family == "encoder",
            depends_on_places=family == "encoder" and model.config.stack.depends_on_places,
        )

    @classmethod
    def of_checkpoint(cls, model: Checkpoint) -> "TextModel":
        """Make a model that reads prompts as its checkpoint's own files say."""
        return cls(
            graphdef=model.graphdef,
            mesh=model.mesh,
            vocab_size=model.config.vocab_size,
            is_decoder=model.kind == "decoder",
            max_positions=_learned_positions(model.model, model.config),
            prompt_encoder=model.prompt_encoder,
            start_id=model.special_ids.decoder_start,
            end_ids=model.end_ids,
        )

    def check_length(self, config: ModelConfig, *, prompt: int, answer: int, what: str) -> None:
        """Check that a generative encoder has positions for a prompt, its answer and the mask after it.

        Args:
          config: Model configuration.
          prompt: Tokens of a prompt, special ids included.
          answer: Tokens of an answer.
          what: Name of the texts, for the message.

        Raises:
          ValueError: It has fewer.
        """
        if self.is_encoder:
            check_length(config, prompt + answer + 1, what=what)

    def encode_prompts(
        self, prompter: Prompter, prompts: Sequence[Prompt], *, length: int
    ) -> list[EncodedPrompt]:
        """Encode prompts that fit into a number of ids.

        Few-shot examples are dropped first, starting with the farthest; then the question is cut. A question that is
        followed by an end of sequence loses its end. A decoder's question loses its beginning, because its end asks for
        the answer.

        Args:
          prompter: Writes prompts with fewer examples.
          prompts: Prompts with all examples.
          length: Highest number of ids.
        """
        texts = [prompter.write(prompt) for prompt in prompts]
        length = min(length, self.max_positions or length)
        return [
            self._fit(prompter, prompt, text, ids, length)
            for prompt, text, ids in zip(prompts, texts, self.tokenizer.encode_all(texts), strict=True)
        ]

    def _fit(
        self, prompter: Prompter, prompt: Prompt, text: str, ids: list[int], length: int
    ) -> EncodedPrompt:
        available = length - len(self.prompt_encoder.with_special_ids([]))
        shown = len(prompt.examples)
        while len(ids) > available and shown:
            shown -= 1
            text = prompter.write(prompt, shown)
            (ids,) = self.tokenizer.encode_all([text])
        cut = max(len(ids) - available, 0)
        if cut:
            ids = ids[cut:] if self.continues else ids[:available]
        whole = np.array(self.prompt_encoder.with_special_ids(ids), np.int32)
        return EncodedPrompt(whole, text, cut, len(prompt.examples) - shown)

    def requests(
        self, prompts: Sequence[EncodedPrompt], answers: Sequence[str], *, length: int, separator: str = " "
    ) -> list[LikelihoodRequest]:
        """Combine each prompt with an answer, for scoring.

        If texts end with an end of sequence, so do answers. Otherwise prompt and answer are encoded together, and the
        answer is the part after the prompt's own ids, so that no token is split (Gao et al., lm-evaluation-harness).

        Args:
          prompts: Encoded prompts.
          answers: One answer for each.
          length: Tokens of an answer, at most.
          separator: Separator of prompt and answer.
        """
        if not self.continues:
            return [
                LikelihoodRequest(prompt.ids, [*ids[: length - 1], *self.end_ids[:1]])
                for prompt, ids in zip(prompts, self.tokenizer.encode_all(answers), strict=True)
            ]
        alone = self.tokenizer.encode_all([prompt.text for prompt in prompts])
        whole = self.tokenizer.encode_all(
            [prompt.text + separator + answer for prompt, answer in zip(prompts, answers, strict=True)]
        )
        return [
            LikelihoodRequest(prompt.ids, both[len(before) :][:length])
            for prompt, before, both in zip(prompts, alone, whole, strict=True)
        ]

    def generate(
        self,
        params: Parameters,
        prompts: Sequence[Ids],
        config: GenerationConfig,
        *,
        batch_size: int,
        limit: int,
        stop_ids: Sequence[int] = (),
    ) -> Iterator[tuple[int, str]]:
        """Yield the index of each prompt once it is done, with its text.

        A text ends at an end of sequence or a decoder's last learned position.

        Args:
          params: Weights.
          prompts: Token ids.
          config: Decoding settings.
          batch_size: The most rows of the compiled batch.
          limit: Tokens of the longest prompt, at most.
          stop_ids: Further ids that end a text.
        """
        for prompt in prompts:
            if not isinstance(prompt, Recording):
                check_token_ids(prompt, "a prompt", self.vocab_size)
        check_token_ids(list(stop_ids), "stop_ids", self.vocab_size)
        most = [self._num_new(len(prompt), config) for prompt in prompts]
        # Beams beyond the positions, whose scores are NaN, would displace good ones. So beams search with one limit.
        limits = sorted({*most}) if config.num_beams > 1 else [config.max_new_tokens]
        for length in limits:
            indices = [index for index, left in enumerate(most) if config.num_beams == 1 or left == length]
            written = self._generator(
                params,
                [prompts[index] for index in indices],
                replace(config, max_new_tokens=length),
                end_ids=(*self.end_ids, *stop_ids),
                batch_size=batch_size,
                limit=limit,
            )
            for place, ids in written:
                yield indices[place], self.tokenizer.decode(ids[: most[indices[place]]])

    def score(
        self, params: Parameters, requests: Sequence[LikelihoodRequest], *, batch_size: int, limit: int
    ) -> Likelihoods:
        """Compute the log-likelihoods of at most ``batch_size`` requests.

        A decoder's empty prompt is replaced by one token.

        Args:
          params: Weights.
          requests: Prompts with their answers.
          batch_size: Rows of the compiled batch.
          limit: Tokens of the longest prompt, at most.

        Raises:
          ValueError: An encoder whose attention depends on places.
        """
        for request in requests:
            check_token_ids(request.prompt, "a prompt", self.vocab_size)
            check_token_ids(request.target, "an answer", self.vocab_size)
        whole = [
            request if len(request.prompt) else LikelihoodRequest([0], request.target) for request in requests
        ]
        if self.is_encoder:
            if self.depends_on_places:
                raise ValueError(
                    "this encoder has sliding windows or relative positions, for which masks behind an answer are too "
                    "far from it; it writes, but can't score given answers. Use method='generate'"
                )
            batch = masked_scoring_batch(whole, mask_id=self.start_id, batch_size=batch_size, limit=limit)
        else:
            batch = scoring_batch(
                whole, is_decoder=self.is_decoder, start_id=self.start_id, batch_size=batch_size, limit=limit
            )
        return Likelihoods(*(column[: len(requests)] for column in self.scorer(params, batch)))

    def _num_new(self, num_before: int, config: GenerationConfig) -> int:
        """Return the tokens that may follow a prompt; the last one of a text is read nowhere and needs no position."""
        if self.max_positions is None:
            return config.max_new_tokens
        return min(config.max_new_tokens, self.max_positions + 1 - num_before)

    @functools.cached_property
    def _generator(self) -> Generator:
        return Generator(self.graphdef, self.mesh, is_decoder=self.is_decoder, start_id=self.start_id)

    @functools.cached_property
    def scorer(self) -> Scorer:
        """Compiled scorer of batches."""
        return Scorer(self.graphdef, self.mesh, vocab_size=self.vocab_size)


def _learned_positions(model: object, config: CommonConfig) -> int | None:
    """Return the learned positions of a decoder's rows; None for other models, and where positions aren't learned."""
    if family_of(first_member(model)) != "decoder":
        return None
    learned = learned_positions(first_member(model).config)
    return None if learned is None else learned - num_virtual_tokens(config)
