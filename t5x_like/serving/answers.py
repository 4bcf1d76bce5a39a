"""Answers with text in the form of OpenAI's: whole, or in pieces as server-sent events."""

import json
import logging
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

from t5x_like.serving.model_worker import Partial
from t5x_like.serving.request_fields import RequestError
from t5x_like.serving.served_model import Completion

log = logging.getLogger(__name__)

Completed: TypeAlias = tuple[list[Completion], int]  # with the number of the prompts' tokens


def completion_request(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a completion for those of a chat; ``messages`` take the place of the prompt.

    Raises:
      RequestError: Fields contradict each other.
    """
    limits = {name: fields[name] for name in ("max_completion_tokens", "max_tokens")}
    numbers = {number for number in limits.values() if number is not None}
    if len(numbers) > 1:
        raise RequestError(
            "max_tokens and max_completion_tokens differ; give one of them", param="max_tokens"
        )
    best = fields["top_logprobs"]
    if best is not None and not fields["logprobs"]:
        raise RequestError("top_logprobs is for logprobs: true; leave it out", param="top_logprobs")
    return {
        **fields,
        "prompt": None,
        "echo": False,
        "max_tokens": next(iter(numbers), None),
        "logprobs": (best or 0) if fields["logprobs"] else None,
    }


class Answer:
    """An answer to a request for completions or a chat.

    Args:
      model: Name of the model.
      fields: Fields of a completion, as ``completion_request`` returns them for a chat.
    """

    def __init__(self, model: str, fields: dict[str, Any]) -> None:
        self._is_chat = "messages" in fields
        self._num_best = fields["logprobs"]
        options = fields["stream_options"] or {}
        self._has_usage = options.get("include_usage", False)
        self._head = {
            "id": f"{'chatcmpl' if self._is_chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": "chat.completion" if self._is_chat else "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, completed: Completed) -> dict[str, Any]:
        """Return the JSON of the answer.

        Args:
          completed: Completions in the order of their index.
        """
        completions, _ = completed
        choices = [
            {
                "index": index,
                **self._text(each.text),
                "logprobs": self._logprobs(each),
                "finish_reason": each.finish_reason,
            }
            for index, each in enumerate(completions)
        ]
        return {**self._head, "choices": choices, "usage": _usage(completed)}

    async def events(
        self, first: Partial | Completed, others: AsyncIterator[Partial | Completed]
    ) -> AsyncIterator[str]:
        """Yield server-sent events: partial texts as they come, the rest of each text, and its end.

        The texts of a choice's events are together that of ``whole``. An error is the last event.

        Args:
          first: First outcome of the request.
          others: Outcomes after it, which are closed at the end.
        """
        async with aclosing(others):  # pyright: ignore[reportArgumentType]
            try:
                sent: dict[int, str] = {}
                for event in self._events_of(first, sent):
                    yield event
                async for outcome in others:
                    for event in self._events_of(outcome, sent):
                        yield event
                yield "data: [DONE]\n\n"
            except RequestError as error:
                yield _event(error.body())
            except Exception as error:
                log.exception("a stream failed")
                message = f"the server failed: {type(error).__name__}; see its log"
                yield _event(RequestError(message, status=500).body())

    def _events_of(self, outcome: Partial | Completed, sent: dict[int, str]) -> Sequence[str]:
        """Return the events of an outcome, and add their texts to those that were sent by index."""
        if isinstance(outcome, Partial):
            return self._pieces(outcome.choice, outcome.text, sent)
        events = []
        for index, each in enumerate(outcome[0]):
            before = sent.get(index, "")
            assert each.text.startswith(before), f"{before!r} was sent of {each.text!r}"
            events += self._pieces(index, each.text[len(before) :], sent)
            end = {"delta": {}} if self._is_chat else {"text": ""}
            events.append(self._chunk(index, end, self._logprobs(each), each.finish_reason))
        if self._has_usage:
            events.append(_event(self._chunk_head | {"choices": [], "usage": _usage(outcome)}))
        return events

    def _pieces(self, index: int, text: str, sent: dict[int, str]) -> list[str]:
        """Return the events of a piece of text, after that of the role if it is the first of a chat's choice."""
        events = []
        if self._is_chat and index not in sent:
            events.append(self._chunk(index, {"delta": {"role": "assistant", "content": ""}}))
        if text:
            events.append(
                self._chunk(index, {"delta": {"content": text}} if self._is_chat else {"text": text})
            )
        sent[index] = sent.get(index, "") + text
        return events

    @property
    def _chunk_head(self) -> dict[str, Any]:
        return self._head | ({"object": "chat.completion.chunk"} if self._is_chat else {})

    def _chunk(
        self, index: int, content: dict[str, Any], logprobs: object = None, finish_reason: str | None = None
    ) -> str:
        choice = {"index": index, **content, "logprobs": logprobs, "finish_reason": finish_reason}
        # OpenAI's events have the field everywhere if the last one has it.
        return _event(self._chunk_head | {"choices": [choice]} | ({"usage": None} if self._has_usage else {}))

    def _text(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text}} if self._is_chat else {"text": text}

    def _logprobs(self, completion: Completion) -> dict[str, Any] | None:
        """Return log-probabilities in the form of completions, or as the list of a chat."""
        values = completion.logprobs
        if values is None or not self._is_chat:
            return values

        def entry(token: str, value: float) -> dict[str, Any]:
            return {"token": token, "logprob": value, "bytes": None}

        rows = zip(values["tokens"], values["token_logprobs"], values["top_logprobs"], strict=True)
        content = [
            entry(token, value)
            | {"top_logprobs": [entry(*pair) for pair in list(top.items())[: self._num_best]]}
            for token, value, top in rows
        ]
        return {"content": content}


def _usage(completed: Completed) -> dict[str, int]:
    completions, num_prompt = completed
    num_new = sum(each.num_tokens for each in completions)
    return {
        "prompt_tokens": num_prompt,
        "completion_tokens": num_new,
        "total_tokens": num_prompt + num_new,
    }


def _event(content: object) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False, separators=(',', ':'))}\n\n"
