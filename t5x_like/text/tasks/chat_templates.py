"""How conversations are written: each role's turn around its message, as data."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

CONTENT = "{content}"
_IDS = ("{bos}", "{eos}")


class ChatPart(NamedTuple):
    """A part of a written conversation: ordinary text, or the name of one special id."""

    text: str
    is_special: bool
    is_answer: bool


@dataclass(frozen=True, kw_only=True)
class ChatTemplate:
    """``turns`` says for each role what stands around ``{content}``; ``start`` comes before the first turn.

    Every string of ``special`` is one id, a piece of the vocabulary; ``{bos}`` and ``{eos}`` are its beginning and end
    of sequence. The same strings in a message are ordinary text. Answers are the messages of ``answering_role``, up to
    and with the first special id after each, which ends it.

    >>> ChatTemplate(turns={"user": "Q: {content} A: ", "assistant": "{content}{eos}"}).roles
    ('user', 'assistant')
    """

    turns: Mapping[str, str]
    start: str = ""
    special: Sequence[str] = ()
    answering_role: str = "assistant"
    strip: bool = False  # white space around messages is left out

    def __post_init__(self) -> None:
        object.__setattr__(self, "special", tuple(self.special))
        for role, turn in self.turns.items():
            if turn.count(CONTENT) != 1:
                raise ValueError(f"the turn of {role!r} must hold {CONTENT} once, got {turn!r}")
        if self.answering_role not in self.turns:
            raise ValueError(
                f"answering_role {self.answering_role!r} has no turn; there are {', '.join(self.turns) or 'none'}"
            )

    @property
    def roles(self) -> tuple[str, ...]:
        """Who may speak."""
        return tuple(self.turns)

    @property
    def special_strings(self) -> tuple[str, ...]:
        """Those of ``special``, ``{bos}`` and ``{eos}`` that are written anywhere."""
        written = self.start + "".join(self.turns.values())
        return tuple(string for string in (*self.special, *_IDS) if string in written)

    def write(self, messages: Sequence[tuple[str, str]]) -> list[ChatPart]:
        """A conversation of (role, content), neighbouring texts joined unless an answer begins or ends between them."""
        stretches: list[ChatPart] = []
        for stretch in self._stretches(messages):
            last = stretches[-1] if stretches else None
            if (
                last
                and not last.is_special
                and not stretch.is_special
                and last.is_answer == stretch.is_answer
            ):
                stretches[-1] = last._replace(text=last.text + stretch.text)
            else:
                stretches.append(stretch)
        return stretches

    def _stretches(self, messages: Sequence[tuple[str, str]]) -> Iterator[ChatPart]:
        yield from self._parts(self.start)
        for role, content in messages:
            before, after = self.turns[role].split(CONTENT)
            is_answer = role == self.answering_role
            yield from self._parts(before)
            content = content.strip() if self.strip else content
            if content:
                yield ChatPart(content, False, is_answer)
            for part in self._parts(after):
                yield part._replace(is_answer=is_answer)
                is_answer = is_answer and not part.is_special

    def _parts(self, text: str) -> Iterator[ChatPart]:
        strings = sorted((*self.special, *_IDS), key=len, reverse=True)
        for part in re.split("(" + "|".join(map(re.escape, strings)) + ")", text):
            if part:
                yield ChatPart(part, part in strings, False)


PLAIN = ChatTemplate(
    turns={
        "system": "{content}\n\n",
        "user": "User:\n{content}\n",
        "assistant": "Assistant:\n{content}{eos}\n",
    }
)

# https://github.com/openai/openai-python/blob/release-v0.28.1/chatml.md
CHATML = ChatTemplate(
    turns={role: f"<|im_start|>{role}\n{{content}}<|im_end|>\n" for role in ("system", "user", "assistant")},
    special=("<|im_start|>", "<|im_end|>"),
)

# https://www.llama.com/docs/model-cards-and-prompt-formats/meta-llama-3/
LLAMA_3 = ChatTemplate(
    start="<|begin_of_text|>",
    turns={
        role: f"<|start_header_id|>{role}<|end_header_id|>\n\n{{content}}<|eot_id|>"
        for role in ("system", "user", "assistant")
    },
    special=("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    strip=True,
)

# https://ai.google.dev/gemma/docs/core/prompt-structure; it has no system turn.
GEMMA = ChatTemplate(
    start="<bos>",
    turns={
        "user": "<start_of_turn>user\n{content}<end_of_turn>\n",
        "assistant": "<start_of_turn>model\n{content}<end_of_turn>\n",
    },
    special=("<bos>", "<start_of_turn>", "<end_of_turn>"),
    strip=True,
)

TEMPLATES: Mapping[str, ChatTemplate] = {
    "plain": PLAIN,
    "chatml": CHATML,
    "llama_3": LLAMA_3,
    "gemma": GEMMA,
}
