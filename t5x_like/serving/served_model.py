"""A pretrained model behind the requests of a server: completions with log-probabilities, and embeddings."""

import secrets
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from t5x_like.inference.length_batches import pad_prompts, round_length
from t5x_like.inference.rolling_batch import WrittenRow
from t5x_like.model.families.family import can_decode
from t5x_like.model.model_traits import traits_of
from t5x_like.pretrained.sentence_transformers import SentenceEmbedding
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.serving.chat_prompts import chat_prompts_of
from t5x_like.serving.model_worker import Arrivals, ModelRequest, Partial
from t5x_like.serving.request_batches import ReadPrompt, compute_together
from t5x_like.serving.request_fields import Limits, Prompt, RequestError
from t5x_like.serving.text_writer import Draws, TextWriter
from t5x_like.serving.token_scores import TokenScorer

# Each new combination of sizes compiles a program; a server that ran for long would keep them all.
_MOST_PROGRAMS = 128
# Kinds of models that fields are for; others generate alone.
_FAMILIES = {"echo": ("decoder",), "logprobs": ("decoder", "encoder_decoder")}


class Completion(NamedTuple):
    """A completion of a prompt.

    Attributes:
      text: New text, after that of the prompt if it is echoed.
      finish_reason: "stop" at the model's end of text or a stop text, "length" at ``max_tokens``.
      logprobs: In the form of OpenAI; ``None`` if not asked for.
      num_tokens: New tokens, an end of text included.
    """

    text: str
    finish_reason: str
    logprobs: dict[str, Any] | None
    num_tokens: int


@dataclass
class _Answer:
    """A request that is answered.

    Attributes:
      request: The request.
      prompts: Its prompts.
      num_texts: Different texts of each prompt.
      texts: New ids of each text, by the indices of prompt and text.
      left: Texts that have not ended.
      shown: Characters of each text that were sent.
    """

    request: ModelRequest
    prompts: list[ReadPrompt]
    num_texts: int
    texts: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    left: set[tuple[int, int]] = field(default_factory=set)
    shown: dict[tuple[int, int], int] = field(default_factory=dict)


class ServedModel:
    """Computes what requests ask for. One thread at a time may call it.

    Args:
      pretrained: The model.
      name: Name in answers.
      limits: Limits of prompts and new tokens.

    Attributes:
      chat: Prompts of conversations; ``None`` for a model without a chat template.
    """

    def __init__(self, pretrained: Pretrained, name: str, limits: Limits):
        opened = pretrained.checkpoint
        self.name, self.limits = name, limits
        self.num_parameters, self.task = opened.num_parameters, traits_of(opened.config).task or ""
        self._pretrained, self._family = pretrained, opened.family
        self._max_positions = opened.max_positions
        self._tokenizer = pretrained.vocabulary
        self._can_write = opened.can_generate and can_decode(pretrained.model) and self._family != "encoder"
        self._can_embed = self._family in ("encoder", "encoder_decoder", "decoder")
        self.chat = chat_prompts_of(opened) if self._can_write else None
        ends = (*opened.end_ids, *(self.chat.end_ids if self.chat is not None else ()))
        self._end_ids = tuple(dict.fromkeys(each for each in ends if each < opened.config.vocab_size))
        self._programs: set[Any] = set()
        self._scorer = TokenScorer(pretrained, text_of=self._text, count_program=self._count_program)
        if self._can_write:
            self._writer = TextWriter(pretrained, num_rows=limits.rows, end_ids=self._end_ids)

    @property
    def abilities(self) -> list[str]:
        """Endpoints that the model can answer."""
        can = {
            "completions": self._can_write,
            "chat/completions": self.chat is not None,
            "embeddings": self._can_embed,
        }
        return [name for name, is_able in can.items() if is_able]

    def complete(
        self, arrivals: Arrivals
    ) -> Iterator[tuple[int, Partial | tuple[list[Completion], int] | RequestError]]:
        """Complete each prompt of each request, ``n`` times.

        Prompts of all requests are rows of one batch, which they join when they come.

        Args:
          arrivals: Returns requests that have come, with the fields of ``completion_fields``; or with ``messages`` in
            place of a prompt, and ``max_tokens`` of ``None`` for as many as there may be.

        Yields:
          The index of a request, and a further part of a text that it streams; at last the completions of its prompts
          in order with their number of tokens. Or the error that answers it: the model can't, or a prompt is too long.
        """
        answers: dict[int, _Answer] = {}
        num_requests = 0
        try:
            while True:
                for request in arrivals():
                    try:
                        answers[num_requests] = self._begin(num_requests, request)
                    except RequestError as error:
                        yield num_requests, error
                    num_requests += 1
                for index, answer in list(answers.items()):
                    if answer.request.is_cancelled():
                        for text in answer.left:
                            self._writer.drop(((index, text[0]), text[1]))
                        del answers[index]
                        yield index, RequestError("the request took too long", status=503)
                    elif not answer.left:
                        del answers[index]
                        yield index, self._whole(answer)
                if not answers:
                    return
                streams = any(answer.request.fields.get("stream") for answer in answers.values())
                for written in self._writer.advance(streams=streams):
                    (index, prompt), text = written.name
                    if index in answers:
                        yield from self._continue(index, answers[index], (prompt, text), written)
                self._count_programs()
        finally:
            self._writer.clear()

    def embed(self, arrivals: Arrivals) -> Iterator[tuple[int, tuple[list[np.ndarray], int] | RequestError]]:
        """Return a vector for each input of each request, float32 [D].

        Args:
          arrivals: Returns requests that have come, with the fields of ``embedding_fields``.

        Returns:
          The index of each request when it is done, and its vectors with the number of its tokens; or the error that
          answers it: the model can't, or an input is too long.
        """
        return compute_together(arrivals(), self._read_inputs, self._embed, most_rows=self.limits.rows)

    def _begin(self, index: int, request: ModelRequest) -> _Answer:
        prompts = self._read_prompts(request.fields)
        fields = prompts[0].fields
        answer = _Answer(request, prompts, num_texts=fields["n"] if fields["temperature"] else 1)
        texts = [(prompt, text) for prompt in range(len(prompts)) for text in range(answer.num_texts)]
        answer.texts = {text: [] for text in texts}
        if not fields["max_tokens"]:
            return answer
        answer.left = set(texts)
        for position, prompt in enumerate(prompts):
            draws = Draws(
                fields["temperature"], max(fields["top_k"], 0), max(fields["top_p"], 0.01), prompt.seed
            )
            self._writer.add(
                (index, position),
                prompt.ids,
                max_new_tokens=fields["max_tokens"],
                draws=draws,
                num_texts=answer.num_texts,
            )
        return answer

    def _continue(
        self, index: int, answer: _Answer, place: tuple[int, int], written: WrittenRow
    ) -> Iterator[tuple[int, Partial]]:
        """Take further ids of a text into its answer, and yield what can be shown of them."""
        prompt, fields = answer.prompts[place[0]], answer.request.fields
        ids, has_ended = written.ids, written.has_ended
        if fields["stop"] and (number := self._num_to_stop(prompt, ids, fields["stop"])) is not None:
            if not has_ended:
                self._writer.drop(((index, place[0]), place[1]))
            ids, has_ended = ids[:number], True
        answer.texts[place] = ids
        if has_ended:
            answer.left.discard(place)
        elif fields.get("stream"):
            before = self._text(prompt.ids[prompt.num_special :]) if fields["echo"] else ""
            text = before + _settled(self._new_text(prompt, ids), fields["stop"] or ())
            shown = answer.shown.get(place, 0)
            if len(text) > shown:
                answer.shown[place] = len(text)
                for choice in self._choices(answer, place):
                    yield index, Partial(choice, text[shown:])

    def _choices(self, answer: _Answer, place: tuple[int, int]) -> list[int]:
        """Return the indices of a text among the choices of its answer; greedy texts are all the same."""
        first, number = place[0] * answer.request.fields["n"], answer.request.fields["n"]
        return [first + place[1]] if answer.num_texts > 1 else [first + text for text in range(number)]

    def _num_to_stop(self, prompt: ReadPrompt, ids: list[int], stops: Sequence[str]) -> int | None:
        """Return the number of ids whose text has one of ``stops``; None if there is none."""

        def has_stop(number: int) -> bool:
            text = self._new_text(prompt, ids[:number])
            return any(stop in text for stop in stops if stop)

        if not has_stop(len(ids)):
            return None
        return bisect_left(range(len(ids)), True, key=has_stop)

    def _whole(self, answer: _Answer) -> tuple[list[Completion], int]:
        completions: list[Completion] = []
        for index, prompt in enumerate(answer.prompts):
            texts = [self._completion(prompt, answer.texts[index, text]) for text in range(answer.num_texts)]
            completions += texts if answer.num_texts > 1 else texts * prompt.fields["n"]
        return completions, sum(len(prompt.ids) for prompt in answer.prompts)

    def _read_prompts(self, fields: dict[str, Any]) -> list[ReadPrompt]:
        self._check(fields)
        if not self._can_write:
            raise RequestError(f"{self.name} writes no text, its task is {self.task}; ask for /v1/embeddings")
        if "messages" in fields:
            fields = self._with_chat_prompt(fields)
        if fields["prompt"] is None:
            raise RequestError("give a prompt", param="prompt")
        for name, families in _FAMILIES.items():
            if fields[name] is not None and fields[name] is not False and self._family not in families:
                raise RequestError(f"{name} is not for this kind of model, {self._family}", param=name)
        seed = secrets.randbits(31) if fields["seed"] is None else fields["seed"]
        prompts = []
        for index, prompt in enumerate(fields["prompt"]):
            ids, num_special = self._ids(prompt, "prompt")
            self._check_room(len(ids), fields["max_tokens"])
            prompts.append(ReadPrompt(ids, fields, num_special=num_special, seed=(seed + index) % 2**31))
        return prompts

    def _with_chat_prompt(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a chat with its prompt's ids, and with a number of new tokens."""
        if self.chat is None:
            raise RequestError(f"{self.name} has no chat template; ask for /v1/completions")
        if fields["messages"] is None:
            raise RequestError("give messages", param="messages")
        ids, most = self.chat.ids(fields["messages"]), self.limits.new_tokens
        if not ids:
            raise RequestError("the model's chat template writes nothing for the messages", param="messages")
        if self._max_positions is not None:
            before = 0 if self._family == "encoder_decoder" else len(ids) - 1
            most = max(min(most, self._max_positions - before), 1)
        wanted = fields["max_tokens"]
        return fields | {"prompt": [ids], "max_tokens": most if wanted is None else wanted}

    def _read_inputs(self, fields: dict[str, Any]) -> list[ReadPrompt]:
        self._check(fields)
        if not self._can_embed:
            raise RequestError(f"{self.name} makes no embeddings; ask for /v1/completions")
        if fields["input"] is None:
            raise RequestError("give an input", param="input")
        width = self._pretrained.config.model_dim
        if (wanted := fields["dimensions"]) is not None and wanted > width:
            raise RequestError(
                f"dimensions is {wanted}, and {self.name} has vectors of {width}; give at most {width}",
                param="dimensions",
            )
        rows = [self._ids(each, "input", to_embed=True)[0] for each in fields["input"]]
        return [ReadPrompt(ids, fields, (round_length(len(ids), self._max_positions),)) for ids in rows]

    def _embed(self, prompts: list[ReadPrompt]) -> list[np.ndarray]:
        rows = self._filled([prompt.ids for prompt in prompts])
        length = round_length(max(map(len, rows)), self._max_positions)
        padded, mask = pad_prompts(rows, length=length)
        self._count_program("embed", padded.shape)
        vectors = list(self._pretrained.embed(padded, mask)[: len(prompts)])
        settings = self._pretrained.sentence_embedding or SentenceEmbedding()
        return [
            vector if (wanted := prompt.fields["dimensions"]) is None else settings.truncated(vector, wanted)
            for prompt, vector in zip(prompts, vectors, strict=True)
        ]

    def _filled(self, rows: Sequence[list[int]]) -> list[list[int]]:
        """Repeat the last of some rows up to a power of two, as each number compiles a program."""
        number = max(min(1 << (len(rows) - 1).bit_length(), self.limits.rows), len(rows))
        return [*rows, *[rows[-1]] * (number - len(rows))]

    def _check(self, fields: Mapping[str, object]) -> None:
        if fields["model"] not in (None, self.name):
            raise RequestError(
                f"there is no model {fields['model']!r} here, only {self.name!r}", status=404, param="model"
            )

    def _ids(self, prompt: Prompt, param: str, *, to_embed: bool = False) -> tuple[list[int], int]:
        """Return the ids that the model reads, and how many special ones begin them; tokens are taken as they are."""
        vocab_size, most = self._pretrained.config.vocab_size, self.limits.prompt_tokens
        if isinstance(prompt, list):
            ids, num_special = prompt, 0
            if max(ids) >= vocab_size:
                raise RequestError(
                    f"{param} has token id {max(ids)}, the model has {vocab_size}", param=param
                )
        elif self._tokenizer is None:
            raise RequestError(f"{self.name} has no tokenizer; give {param} as token ids", param=param)
        else:
            if not to_embed and self._family == "encoder_decoder" and not prompt:
                raise RequestError("an encoder-decoder needs a prompt with text", param=param)
            try:
                ids = (
                    self._pretrained.embedding_ids(prompt)
                    if to_embed
                    else self._pretrained.encode(prompt)["input_ids"][0].tolist()
                )
            except ValueError as error:
                raise RequestError(f"{param}: {error}", param=param) from error
            is_prompt = self._family == "decoder" and not to_embed
            num_special = len(ids) - len(self._tokenizer.encode(prompt)) if is_prompt else 0
        if to_embed and self._max_positions is not None:
            most = min(most, self._max_positions)
        if len(ids) > most:
            raise RequestError(f"{param} has {len(ids)} tokens; give at most {most}", param=param)
        return ids, num_special

    def _check_room(self, num_prompt: int, num_new: int) -> None:
        if self._max_positions is None:
            return
        in_encoder = self._family == "encoder_decoder"
        needed = max(num_prompt, num_new) if in_encoder else num_prompt + max(num_new - 1, 0)
        if needed > self._max_positions:
            together = "either has" if in_encoder else "together they have"
            raise RequestError(
                f"prompt of {num_prompt} tokens and max_tokens {num_new}: {together} at most {self._max_positions} "
                "positions; shorten the prompt or lower max_tokens",
                param="max_tokens",
            )

    def _completion(self, read: ReadPrompt, new: list[int]) -> Completion:
        prompt, num_special, fields = read.ids, read.num_special, read.fields
        has_ended = bool(new) and new[-1] in self._end_ids
        text = self._new_text(read, new)
        cuts = [index for stop in fields["stop"] or () if stop and (index := text.find(stop)) >= 0]
        text = text[: min(cuts)] if cuts else text
        shown = prompt[num_special:] if fields["echo"] else []
        before = self._text(shown)
        logprobs = None
        if fields["logprobs"] is not None:
            entries = self._scorer.score(prompt, new, best=fields["logprobs"], all_tokens=fields["echo"])
            entries = entries[num_special:] if fields["echo"] else entries
            end = len(before) + len(text) if cuts else None
            logprobs = self._scorer.in_form_of_openai(shown + new, entries, end=end)
        return Completion(before + text, "stop" if has_ended or cuts else "length", logprobs, len(new))

    def _text(self, ids: Sequence[int]) -> str:
        """Return the text of ids; an end of text among them has none, and doesn't end it."""
        if self._tokenizer is None:
            return ""
        return self._tokenizer.decode(token_id for token_id in ids if token_id not in self._end_ids)

    def _new_text(self, prompt: ReadPrompt, new: list[int]) -> str:
        """Return the text of new ids; after a decoder's prompt with the space between, which decoding alone drops.

        The answer of a chat is a text of its own.
        """
        if self._family == "decoder" and "messages" not in prompt.fields:
            before, whole = self._text(prompt.ids), self._text(prompt.ids + new)
            if whole.startswith(before):
                return whole[len(before) :]
        return self._text(new)

    def _count_program(self, *settings: object) -> None:
        self._programs.add(settings)
        self._count_programs()

    def _count_programs(self) -> None:
        if len(self._programs) + len(self._writer.programs if self._can_write else ()) > _MOST_PROGRAMS:
            jax.clear_caches()
            self._programs.clear()
            if self._can_write:
                self._writer.programs.clear()


def _settled(text: str, stops: Sequence[str]) -> str:
    """Return the part of a text that further tokens leave as it is.

    Args:
      text: Text of some tokens; the last may be the beginning of a character.
      stops: Texts before which it ends.
    """
    text = text.rstrip("\ufffd")
    held = max(
        (length for stop in stops for length in range(1, len(stop)) if text.endswith(stop[:length])),
        default=0,
    )
    return text[: len(text) - held]
