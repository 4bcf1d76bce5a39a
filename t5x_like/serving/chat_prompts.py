"""Prompts of conversations: messages in a model's own chat template, as token ids."""

import datetime
import functools
import json
import re
import secrets
from collections.abc import Sequence
from typing import Any, Protocol

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.utils
from jinja2.sandbox import ImmutableSandboxedEnvironment

from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.run_weights import trained_chat
from t5x_like.serving.request_fields import CHAT_ROLES, Message, RequestError
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.vocabularies.tokenizer import Tokenizer

_PROBE = "answer"  # content of a message whose end is looked for


class ChatPrompts(Protocol):
    """Protocol of a model's chat template.

    Attributes:
      roles: Roles that messages may have.
      end_ids: Ids that end an answer.
    """

    roles: tuple[str, ...]
    end_ids: tuple[int, ...]

    def ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a conversation up to where the next answer begins, special ones included.

        Raises:
          RequestError: The template refuses the messages.
        """
        ...


def chat_prompts_of(checkpoint: Checkpoint) -> ChatPrompts | None:
    """Return the prompts by the template of a run's chat task, or of the tokenizer's files; ``None`` without one."""
    tokenizer = checkpoint.found_tokenizer
    if tokenizer is None:
        return None
    if (task := trained_chat(checkpoint.directory)) is not None:
        return TrainedPrompts(task, tokenizer)
    template = tokenizer.chat_template
    if isinstance(template, list):  # named ones; the others are for tools and documents
        template = next((each["template"] for each in template if each["name"] == "default"), None)
    return TemplatePrompts(template, tokenizer) if isinstance(template, str) else None


class TrainedPrompts:
    """Prompts by the template of a task that a run was trained on.

    Args:
      task: Task of the run.
      tokenizer: Tokenizer of the run.
    """

    def __init__(self, task: ChatTask, tokenizer: Tokenizer) -> None:
        self._task, self._tokenizer = task, tokenizer
        self.roles = task.writing.roles
        end = task.answer_end_in(tokenizer)
        self.end_ids = () if end is None else (end,)

    def ids(self, messages: Sequence[Message]) -> list[int]:
        pairs = tuple((message["role"], message["content"]) for message in messages)
        return self._task.prompt_ids(pairs, self._tokenizer)


class TemplatePrompts:
    """Prompts by a Jinja template, rendered as transformers' ``apply_chat_template`` does.

    Special pieces that the template writes become special ids, and no others are added. In messages they stay text, so
    that a message can't end itself and speak as another role.

    Args:
      template: Text of the template.
      tokenizer: Tokenizer of the model.
    """

    def __init__(self, template: str, tokenizer: Tokenizer) -> None:
        self.roles: tuple[str, ...] = CHAT_ROLES
        self._template, self._tokenizer = template, tokenizer
        pieces = sorted(tokenizer.special_pieces, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, pieces)) or "(?!)")
        self._secret = secrets.token_hex(16)
        self.end_ids = self._ends()

    def ids(self, messages: Sequence[Message]) -> list[int]:
        return self._tokenizer.encode_parts(self._parts(messages, add_generation_prompt=True))

    def _ends(self) -> tuple[int, ...]:
        """Return the tokenizer's end of sequence, and the special id that the template writes after an answer."""
        ends = self._tokenizer.special.end_ids
        messages = [{"role": "user", "content": _PROBE}, {"role": "assistant", "content": _PROBE}]
        try:
            parts = self._parts(messages, add_generation_prompt=False)
        except RequestError:  # which each request gets
            return ends
        answers = [index for index, part in enumerate(parts) if isinstance(part, str) and _PROBE in part]
        after = parts[answers[-1] + 1 :] if answers else []
        return (*ends, *(part for part in after[:1] if isinstance(part, int) and part not in ends))

    def _parts(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> list[str | int]:
        """Return the rendered texts, with the special ids between them."""
        special = self._tokenizer.special_pieces
        names = list(special)
        hidden = [
            {
                **message,
                "content": self._special.sub(lambda m: self._hidden(names.index(m[0])), message["content"]),
            }
            for message in messages
        ]
        roles = self._tokenizer.special.by_role
        tokens = {
            f"{role}_token": self._tokenizer.piece(each) for role, each in roles.items() if each is not None
        }
        try:
            text = _compiled(self._template).render(
                messages=hidden,
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **tokens,
            )
        except Exception as error:  # a template may raise anything
            raise RequestError(
                f"the model's chat template refuses the messages: {error}", param="messages"
            ) from error
        parts: list[str | int] = []
        start = 0
        for piece in self._special.finditer(text):
            parts += [text[start : piece.start()], special[piece[0]]]
            start = piece.end()
        parts.append(text[start:])
        shown = re.compile(self._hidden(r"(\d+)"))
        return [
            shown.sub(lambda m: names[int(m[1])], part) if isinstance(part, str) else part
            for part in parts
            if part != ""
        ]

    def _hidden(self, number: object) -> str:
        """Return the text in place of a special piece of a message while the template is rendered."""
        return f"{self._secret}:{number}:"


class _Generation(jinja2.ext.Extension):
    """Tag ``{% generation %}``, with which transformers marks answers; its contents are rendered as they are."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@functools.lru_cache(maxsize=2)
def _compiled(template: str) -> jinja2.Template:
    """Return a template with the settings, filters and functions that transformers gives it (version 5.24)."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {
        "raise_exception": _refuse,
        "strftime_now": _now,
        "dict": lambda *parts, **values: dict(*parts, **values),  # the class itself has more attributes
        "namespace": _Namespace,
    }
    return environment.from_string(template)


class _Namespace(jinja2.utils.Namespace):
    """Namespace without names such as ``__call__``, by which a template could reach the environment."""

    def __init__(self, *parts: Any, **values: Any) -> None:
        super().__init__()
        for name, value in dict(*parts, **values).items():
            self[name] = value

    def __setitem__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace has no name {name!r}")
        super().__setitem__(name, value)


def _to_json(value: object, ensure_ascii: bool = False, **options: Any) -> str:
    """Return JSON; Jinja's own filter escapes characters for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def _now(form: str) -> str:
    return datetime.datetime.now().strftime(form)
