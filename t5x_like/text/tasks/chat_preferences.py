"""Tasks of conversations with a better and a worse last answer, for learning from preferences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.text.fields import ANSWER_ENDS, Feature
from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.tasks.chat import ChatTask, Conversation, Messages, messages_of
from t5x_like.text.tasks.rows import BadRow, Row, convert


class ComparedConversations(NamedTuple):
    """Two conversations that differ in their last answer.

    Attributes:
      conversations: The one with the better answer, and the other.
      location: Source (``file:line``).
    """

    conversations: tuple[Conversation, Conversation]
    location: str


@config_class
class ChatPreferenceTask(ChatTask):
    """Conversations of a decoder with a better and a worse last answer (``training.methods.preference_optimization``).

    Files are JSONL or parquet with lists of ``{"role": …, "content": …}`` in two columns: whole conversations, or the
    last answers alone after those of a column ``prompt``. Earlier answers are read and not learned.

    >>> ChatPreferenceTask(name="taste", vocabulary="bytes", files={"train": "talk.jsonl"}).spec.num_choices
    2

    Attributes:
      chosen: Column with the messages that end in the better answer.
      rejected: Column with the messages that end in the worse answer.
      prompt: Column with the messages before; rows may lack it.
    """

    chosen: str = "chosen"
    rejected: str = "rejected"
    prompt: str = "prompt"

    _READS: ClassVar[str] = "pair of conversations"

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unused(
            self, "column", because="two columns are read", advice="name them as chosen and rejected"
        )

    def _rows(self, file: str) -> Iterator[ComparedConversations | BadRow]:
        return convert(self._read_rows(file), self._compared)

    @property
    def spec(self) -> ExampleSpec:
        return super().spec._replace(num_choices=2, fills_rows=True)

    def features(self) -> tuple[Feature, ...]:
        """Return ``tokens`` of both conversations, the start and end of both last answers, and both ends."""
        return (*super().features(), ANSWER_ENDS)

    def shown(self, row: ComparedConversations) -> dict[str, object]:
        return {
            name: super(ChatPreferenceTask, self).shown(conversation)["messages"]
            for name, conversation in zip(("chosen", "rejected"), row.conversations, strict=True)
        }

    def fingerprint(self) -> dict[str, str]:
        lines = super().fingerprint() | {"kind": "compared conversations"}
        return lines | {name: getattr(self, name) for name in ("chosen", "rejected", "prompt")}

    def tokenize(self, rows: Sequence[ComparedConversations]) -> list[Mapping[str, Any]]:
        encoded = super().tokenize([each for row in rows for each in row.conversations])
        examples: list[Mapping[str, Any]] = []
        for better, worse in zip(encoded[::2], encoded[1::2], strict=True):
            middle = len(better["tokens"])
            answers = [*better["answers"][-2:], *(middle + each for each in worse["answers"][-2:])]
            tokens = [*better["tokens"], *worse["tokens"]]
            examples.append({"tokens": tokens, "answers": answers, "answer_ends": [middle, len(tokens)]})
        return examples

    def _compared(self, row: Row) -> ComparedConversations:
        before = messages_of(row, self.prompt, self.writing) if self._has_prompt(row) else ()
        better, worse = (self._whole(row, column, before) for column in (self.chosen, self.rejected))
        if better == worse:
            raise ValueError("both conversations are equal, so neither is better")
        for column, messages in ((self.chosen, better), (self.rejected, worse)):
            role, content = messages[-1]
            if role != self.writing.answering_role:
                raise ValueError(f"column {column!r} ends with a message of {role!r}, and not with an answer")
            if not content.strip():
                raise ValueError(f"column {column!r} ends with an empty answer")
        if better[:-1] != worse[:-1]:
            raise ValueError("the conversations differ before their last answers, which alone are compared")
        located = (Conversation(messages, row.location) for messages in (better, worse))
        return ComparedConversations(tuple(located), row.location)  # pyright: ignore[reportArgumentType]

    def _has_prompt(self, row: Row) -> bool:
        """Return whether a row has messages before the answers; a text repeats what the conversations begin with."""
        cell = row.cells.get(self.prompt)
        return cell is not None and (not isinstance(cell, str) or cell.lstrip().startswith("["))

    def _whole(self, row: Row, column: str, before: Messages) -> Messages:
        """Return a conversation with the messages before it, unless it begins with them."""
        messages = messages_of(row, column, self.writing)
        return messages if messages[: len(before)] == before else (*before, *messages)
