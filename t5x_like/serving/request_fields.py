"""Fields of requests: what each may hold, for checking requests and for describing them in OpenAPI."""

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from t5x_like.value_types import fits

Prompt = str | list[int]
Message = dict[str, str]  # with "role" and "content"

CHAT_ROLES = ("system", "user", "assistant")
_ERROR_TYPES = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}
_NO_PENALTIES = {"presence_penalty": (0,), "frequency_penalty": (0,), "logit_bias": ({},)}


class RequestError(Exception):
    """A request that is answered with an error.

    Args:
      message: What was given, and what is needed.
      status: Status of the answer.
      param: Field of the request.
    """

    def __init__(self, message: str, *, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.message, self.status, self.param = message, status, param

    def body(self) -> dict[str, object]:
        """Return the JSON of the answer."""
        kind = _ERROR_TYPES.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": None}}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a server; requests above them are refused, but for ``rows``.

    Attributes:
      body_bytes: Bytes of a request.
      prompts: Prompts of a request, or texts to embed.
      prompt_tokens: Tokens of each prompt.
      new_tokens: ``max_tokens`` of a request.
      choices: ``n`` of a request.
      rows: Completions or embeddings that are computed together, of one request or of several.
      waiting: Requests that wait for the one in work.
      seconds: Time of a request, waiting included.
    """

    body_bytes: int = 2**20
    prompts: int = 64
    prompt_tokens: int = 2048
    new_tokens: int = 512
    choices: int = 8
    rows: int = 32
    waiting: int = 64
    seconds: float = 120.0


@dataclass(frozen=True, kw_only=True)
class RequestField:
    """A field of a request.

    Attributes:
      kind: Type of the value; "prompts" is a text, tokens, or a list of either, "messages" a conversation, and
        "options" an object of booleans.
      text: Description.
      default: Value where it is left out or null.
      low: Lowest number.
      high: Highest number; of texts the most in a list.
      choices: Allowed texts; of messages the roles, of options their names, and of a field that is not supported the
        values without effect.
    """

    kind: Literal[
        "integer",
        "number",
        "boolean",
        "text",
        "texts",
        "prompts",
        "messages",
        "options",
        "unsupported",
        "ignored",
    ]
    text: str
    default: Any = None
    low: float = 0
    high: float = math.inf
    choices: tuple[Any, ...] = ()

    def schema(self) -> dict[str, object]:
        """Return its JSON schema."""
        token = {"type": "integer", "minimum": 0}
        tokens = {"type": "array", "items": token, "minItems": 1}
        words = {"type": "string"}
        part = {
            "type": "object",
            "properties": {"type": {"const": "text"}, "text": words},
            "required": ["text"],
        }
        content = {"anyOf": [words, {"type": "array", "items": part, "minItems": 1}]}
        message = {"role": {**words, "enum": list(self.choices)}, "content": content}
        schemas: dict[str, dict[str, Any]] = {
            "integer": {"type": "integer"},
            "number": {"type": "number"},
            "boolean": {"type": "boolean"},
            "text": words,
            "texts": {"anyOf": [words, {"type": "array", "items": words}]},
            "prompts": {
                "anyOf": [
                    words,
                    tokens,
                    {"type": "array", "items": words, "minItems": 1},
                    {"type": "array", "items": tokens, "minItems": 1},
                ]
            },
            "messages": {
                "type": "array",
                "items": {"type": "object", "properties": message, "required": list(message)},
                "minItems": 1,
            },
            "options": {
                "type": "object",
                "properties": {str(name): {"type": "boolean"} for name in self.choices},
            },
        }
        schema = {**schemas.get(self.kind, {}), "description": self.text}
        if self.kind in ("integer", "number"):
            schema |= {"minimum": self.low} | ({"maximum": self.high} if math.isfinite(self.high) else {})
        if self.choices and self.kind not in ("messages", "options"):
            schema["enum"] = list(self.choices)
        return schema if self.default is None else schema | {"default": self.default}


def completion_fields(limits: Limits) -> dict[str, RequestField]:
    """Return the fields of ``/v1/completions``."""
    return {
        "model": RequestField(kind="text", text="Name of the model; the one that is served if left out."),
        "prompt": RequestField(
            kind="prompts", text="Text, list of texts, token ids, or list of token ids.", high=limits.prompts
        ),
        "max_tokens": RequestField(
            kind="integer",
            text="Most tokens to generate for each prompt.",
            default=16,
            high=limits.new_tokens,
        ),
        "temperature": RequestField(
            kind="number",
            text="Divides logits, to two decimals; 0 takes the best token.",
            default=1.0,
            high=2,
        ),
        "top_p": RequestField(
            kind="number",
            text="Keep the fewest tokens with this probability, to two decimals.",
            default=1.0,
            high=1,
        ),
        "top_k": RequestField(
            kind="integer", text="Keep the best tokens; 0 or -1 for all.", default=0, low=-1
        ),
        "n": RequestField(
            kind="integer", text="Completions of each prompt.", default=1, low=1, high=limits.choices
        ),
        "stop": RequestField(kind="texts", text="Texts before which a completion ends.", high=4),
        "seed": RequestField(
            kind="integer",
            text="Makes samples repeatable; a random one if left out.",
            low=-(2**63),
            high=2**63 - 1,
        ),
        "echo": RequestField(
            kind="boolean", text="Put the prompt before the completion; decoders only.", default=False
        ),
        "logprobs": RequestField(
            kind="integer",
            text="Give each token's log-probability, and those of so many best tokens.",
            high=20,
        ),
        "stream": RequestField(
            kind="boolean", text="Send the text in pieces, as server-sent events.", default=False
        ),
        "stream_options": RequestField(
            kind="options",
            text="Of a stream; include_usage: a last event with the numbers of tokens.",
            choices=("include_usage",),
        ),
        "user": RequestField(kind="ignored", text="Has no effect."),
        **_unsupported({"suffix": ("",), "best_of": (1,), **_NO_PENALTIES}),
    }


def chat_fields(limits: Limits, roles: Sequence[str] = CHAT_ROLES) -> dict[str, RequestField]:
    """Return the fields of ``/v1/chat/completions``.

    Args:
      limits: Limits of the server.
      roles: Roles that messages may have.
    """
    shared = completion_fields(limits)
    most = "Most tokens to generate; as many as the server and the model allow if left out."
    names = ("temperature", "top_p", "top_k", "n", "stop", "seed", "stream", "stream_options", "user")
    neutral = {
        "tools": ([],),
        "tool_choice": ("none", "auto"),
        "parallel_tool_calls": (True, False),
        "response_format": ({"type": "text"},),
        "modalities": (["text"],),
        "store": (False,),
        "service_tier": ("auto", "default"),
    }
    return {
        "model": shared["model"],
        "messages": RequestField(
            kind="messages",
            text="Conversation so far. Content is a text, or a list of text parts, which are joined by line ends.",
            choices=tuple(roles),
        ),
        "max_completion_tokens": RequestField(kind="integer", text=most, low=1, high=limits.new_tokens),
        "max_tokens": RequestField(
            kind="integer", text="Former name of max_completion_tokens.", low=1, high=limits.new_tokens
        ),
        **{name: shared[name] for name in names},
        "logprobs": RequestField(kind="boolean", text="Give each token's log-probability.", default=False),
        "top_logprobs": RequestField(
            kind="integer", text="With logprobs, also those of so many best tokens.", high=20
        ),
        **_unsupported({**neutral, **_NO_PENALTIES}),
    } | {"n": replace(shared["n"], text="Answers to the conversation.")}


def _unsupported(neutral_values: Mapping[str, tuple[Any, ...]]) -> dict[str, RequestField]:
    text = "Not supported; only a value without effect."
    return {
        name: RequestField(kind="unsupported", text=text, choices=neutral)
        for name, neutral in neutral_values.items()
    }


def embedding_fields(limits: Limits) -> dict[str, RequestField]:
    """Return the fields of ``/v1/embeddings``."""
    return {
        "model": RequestField(kind="text", text="Name of the model; the one that is served if left out."),
        "input": RequestField(
            kind="prompts", text="Text, list of texts, token ids, or list of token ids.", high=limits.prompts
        ),
        "encoding_format": RequestField(
            kind="text",
            text="Numbers, or little-endian float32 in base64.",
            default="float",
            choices=("float", "base64"),
        ),
        "dimensions": RequestField(
            kind="integer", text="Number of the first dimensions to return; all if left out.", low=1
        ),
        "user": RequestField(kind="ignored", text="Has no effect."),
    }


def read_fields(body: object, fields: Mapping[str, RequestField]) -> dict[str, object]:
    """Return the value of each field, defaults included.

    Args:
      body: Parsed JSON of the request.
      fields: Known fields by name.

    Raises:
      RequestError: Not an object, an unknown field, or a value that a field doesn't take.
    """
    if not fits(body, dict):
        raise RequestError('the body is no JSON object; give one, such as {"prompt": "Once"}')
    for name in body:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(fields)}"
            raise RequestError(f"there is no field {_shown(name)}; {hint}", param=_shown(name))
    values = {name: _read(name, field, body.get(name)) for name, field in fields.items()}
    if values.get("stream_options") is not None and not values["stream"]:
        raise RequestError("stream_options is for stream: true; leave it out", param="stream_options")
    return values


def _read(name: str, field: RequestField, value: Any) -> Any:
    if value is None or field.kind == "ignored":
        return field.default
    match field.kind:
        case "integer" | "number":
            is_right = fits(value, int) or (field.kind == "number" and fits(value, float))
            is_right = is_right and abs(value) < math.inf and field.low <= value <= field.high
            most = f" to {field.high:g}" if math.isfinite(field.high) else ""
            wanted = f"a{'n integer' if field.kind == 'integer' else ' number'} from {field.low:g}{most}"
        case "boolean":
            is_right, wanted = fits(value, bool), "true or false"
        case "text":
            is_right = _is_text(value) and (not field.choices or value in field.choices)
            wanted = f"one of {', '.join(field.choices)}" if field.choices else "a text"
        case "messages":
            return _read_messages(name, field.choices, value)
        case "options":
            is_right = fits(value, dict[str, bool]) and set(value) <= set(field.choices)
            wanted = f"an object with true or false for {', '.join(field.choices)}"
        case "texts":
            value = [value] if fits(value, str) else value
            is_right = fits(value, list[str]) and len(value) <= field.high and all(map(_is_text, value))
            wanted = f"a text, or at most {field.high} of them"
        case "prompts":
            value = [value] if fits(value, str) or _is_tokens(value) else value
            is_right = fits(value, list) and 0 < len(value) <= field.high
            is_right = is_right and (all(map(_is_text, value)) or all(map(_is_tokens, value)))
            wanted = (
                f"a text, a list of token ids, or a list of 1 to {field.high} of either, in valid Unicode"
            )
        case _:
            is_right, wanted = (
                value in field.choices,
                f"{_shown(field.choices[0])}, as {name} is not supported",
            )
    if not is_right:
        raise RequestError(f"{name} is {_shown(value)}; give {wanted}", param=name)
    return value


def _read_messages(name: str, roles: Sequence[str], value: Any) -> list[Message]:
    """Return the role and the text of each message.

    Raises:
      RequestError: A message has another role, no text, or something that is not supported.
    """
    if not fits(value, list[dict]) or not value:
        wanted = 'a list of at least one, such as {"role": "user", "content": "Hi"}'
        raise RequestError(f"{name} is {_shown(value)}; give {wanted}", param=name)
    messages: list[Message] = []
    for index, message in enumerate(value):
        where = f"{name}[{index}]"
        role, content = message.get("role"), message.get("content")
        if role not in roles:
            raise RequestError(f"{where}.role is {_shown(role)}; give one of {', '.join(roles)}", param=name)
        for key, each in message.items():
            if key not in ("role", "content") and each:
                raise RequestError(
                    f"{where} has {_shown(key)}, which is not supported; leave it out", param=name
                )
        texts = [content] if fits(content, str) else _texts_of_parts(content)
        if not texts or not all(map(_is_text, texts)):
            wanted = 'a text, or a list of {"type": "text", "text": …}, in valid Unicode'
            raise RequestError(f"{where}.content is {_shown(content)}; give {wanted}", param=name)
        messages.append({"role": role, "content": "\n".join(texts)})
    return messages


def _texts_of_parts(content: Any) -> list[Any]:
    """Return the texts of a list of parts; none if one is of another type, such as an image."""
    parts = content if fits(content, list[dict]) else []
    return [part.get("text") for part in parts] if all(part.get("type") == "text" for part in parts) else []


def _is_text(value: object) -> bool:
    """Return False also for halves of UTF-16 pairs, which JSON can hold and no tokenizer reads."""
    return fits(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _is_tokens(value: object) -> bool:
    return fits(value, list[int]) and bool(value) and min(value) >= 0


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
