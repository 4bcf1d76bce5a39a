"""Chat templates: the text around each role's messages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

CONTENT = "{content}"
_IDS = ("{bos}", "{eos}")


class ChatPart(NamedTuple):
    """Part of a formatted conversation.

    Attributes:
      text: Ordinary text, or the name of one special id.
      is_special: Whether it is a special id.
      is_answer: Whether it belongs to an answer.
    """

    text: str
    is_special: bool
    is_answer: bool


@dataclass(frozen=True, kw_only=True)
class ChatTemplate:
    """Format of conversations.

    Answers are the messages of ``answering_role``, up to and including the first special id after each. The strings of
    ``special`` are ordinary text inside messages.

    >>> ChatTemplate(turns={"user": "Q: {content} A: ", "assistant": "{content}{eos}"}).roles
    ('user', 'assistant')

    Attributes:
      turns: Text around ``{content}`` for each role.
      start: Text before the first turn.
      special: Strings that are one id each, pieces of the vocabulary; ``{bos}`` and ``{eos}`` are its beginning and
        end of sequence.
      answering_role: Role whose messages are learned.
      strip: Remove white space around messages.
    """

    turns: Mapping[str, str]
    start: str = ""
    special: Sequence[str] = ()
    answering_role: str = "assistant"
    strip: bool = False

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
        """Names of the roles."""
        return tuple(self.turns)

    @property
    def special_strings(self) -> tuple[str, ...]:
        """Special strings that the template uses."""
        written = self.start + "".join(self.turns.values())
        return tuple(string for string in (*self.special, *_IDS) if string in written)

    @property
    def answer_end(self) -> str | None:
        """Special string that ends an answer; None for a template without one."""
        after = self.turns[self.answering_role].split(CONTENT)[1]
        return next((part.text for part in self._parts(after) if part.is_special), None)

    def write(
        self, messages: Sequence[tuple[str, str]], *, add_generation_prompt: bool = False
    ) -> list[ChatPart]:
        """Format a conversation of (role, content).

        Args:
          messages: Pairs of role and content.
          add_generation_prompt: Add the text before an answer, which a model continues.

        Returns:
          Parts in order; adjacent texts are joined unless an answer begins or ends between them.
        """
        parts: list[ChatPart] = []
        prompt = self.turns[self.answering_role].split(CONTENT)[0] if add_generation_prompt else ""
        for part in (*self._turns(messages), *self._parts(prompt)):
            last = parts[-1] if parts else None
            if last and not last.is_special and not part.is_special and last.is_answer == part.is_answer:
                parts[-1] = last._replace(text=last.text + part.text)
            else:
                parts.append(part)
        return parts

    def _turns(self, messages: Sequence[tuple[str, str]]) -> Iterator[ChatPart]:
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
