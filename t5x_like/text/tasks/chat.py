"""Tasks of conversations, in which only the answers are learned."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

from t5x_like.config_class import config_class
from t5x_like.text.cells import Cell, list_of
from t5x_like.text.fields import ANSWERS, TOKENS, Feature
from t5x_like.text.objectives.causal_lm import SFT_SPEC
from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.tasks.chat_templates import TEMPLATES, ChatTemplate
from t5x_like.text.tasks.file_task import FileTask, FoundT, TaskVisitor
from t5x_like.text.tasks.row_files import read_rows
from t5x_like.text.tasks.rows import BadRow, Row, convert
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

Messages = tuple[tuple[str, str], ...]  # pairs of role and content


class Conversation(NamedTuple):
    """Messages of a conversation.

    Attributes:
      messages: Pairs of role and content.
      location: Source (``file:line``).
    """

    messages: Messages
    location: str

    @property
    def num_characters(self) -> int:
        """Number of characters of all messages."""
        return sum(len(content) for _, content in self.messages)


@config_class
class ChatTask(FileTask[Conversation]):
    """Supervised fine-tuning of a decoder on conversations; the loss counts answers and the ids that end them.

    Files are JSONL or parquet with ``[{"role": …, "content": …}, …]`` in a column.

    >>> ChatTask(name="talk", vocabulary="bytes", files={"train": "talk.jsonl"}).writing.roles
    ('system', 'user', 'assistant')

    Attributes:
      template: Format: "plain", "chatml", "llama_3", "gemma", or a template of the user's own. Its special strings are
        pieces of the vocabulary that messages can't contain.
      column: Column with the messages.
      special_ids: Ids, such as sentinels, for special strings that the vocabulary lacks.
    """

    template: ChatTemplate | str = "plain"
    column: str = "messages"
    special_ids: Mapping[str, int] = field(default_factory=dict)

    _READS: ClassVar[str] = "conversation"
    _FILE: ClassVar[str] = "train.jsonl"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.template, ChatTemplate) and self.template not in TEMPLATES:
            raise ValueError(
                f"task {self.name!r}: no template {self.template!r}; there are {', '.join(TEMPLATES)}, or give a "
                "ChatTemplate"
            )

    @property
    def writing(self) -> ChatTemplate:
        """Template object."""
        return self.template if isinstance(self.template, ChatTemplate) else TEMPLATES[self.template]

    def _rows(self, file: str) -> Iterator[Conversation | BadRow]:
        return convert(self._read_rows(file), self._conversation)

    def _read_rows(self, file: str) -> Iterator[Row | BadRow]:
        return read_rows(file, "parquet" if file.endswith(".parquet") else "jsonl")

    @property
    def spec(self) -> ExampleSpec:
        return SFT_SPEC

    def features(self) -> tuple[Feature, ...]:
        """Return ``tokens`` of a conversation, and ``answers`` [2 N], the starts and ends of its answers."""
        return TOKENS, ANSWERS

    def accept(self, visitor: TaskVisitor[FoundT]) -> FoundT:
        return visitor.chats(self)

    @property
    def answer_end(self) -> int:
        """Id that ends an answer.

        Raises:
          ValueError: The template ends answers by ordinary text.
        """
        end = self.answer_end_in(self.tokenizer)
        if end is None:
            raise ValueError(
                f"task {self.name!r}: no special string of the template ends an answer, so a model's own would not "
                "stop; add {eos} after {content}"
            )
        return end

    def answer_end_in(self, tokenizer: Tokenizer) -> int | None:
        """Return the id that ends an answer; ``None`` if the template ends answers by ordinary text."""
        end = self.writing.answer_end
        return None if end is None else self._special(tokenizer)[end]

    def prompt_ids(self, messages: Messages, tokenizer: Tokenizer) -> list[int]:
        """Return the ids of a conversation up to the place where the next answer begins.

        Args:
          messages: Pairs of role and content.
          tokenizer: Tokenizer of the model.

        Raises:
          ValueError: The template has no turn for a role.
        """
        unknown = next((role for role, _ in messages if role not in self.writing.roles), None)
        if unknown is not None:
            raise ValueError(
                f"the template has no turn for {unknown!r}, only for {', '.join(self.writing.roles)}"
            )
        special = self._special(tokenizer)
        return [
            token_id
            for part in self.writing.write(messages, add_generation_prompt=True)
            for token_id in ([special[part.text]] if part.is_special else tokenizer.encode(part.text))
        ]

    def shown(self, row: Conversation) -> dict[str, object]:
        return {"messages": [f"{role}: {content}" for role, content in row.messages]}

    def require_answers(self) -> None:
        raise ValueError(
            f"{self.name!r} is a task of conversations: measure its loss, it has no metrics to score answers by"
        )

    def fingerprint(self) -> dict[str, str]:
        template = self.writing
        lines = {"kind": "conversations", "column": self.column}
        lines |= {f"turn of {role}": repr(turn) for role, turn in template.turns.items()}
        lines |= {
            name: repr(getattr(template, name)) for name in ("start", "special", "answering_role", "strip")
        }
        return lines | {"special_ids": repr(dict(sorted(self.special_ids.items())))}

    def tokenize(self, rows: Sequence[Conversation]) -> list[Mapping[str, Any]]:
        """Implement ``FileTask``.

        Raises:
          ValueError: The vocabulary lacks a special string of the template, or a text is invalid.
        """
        tokenizer = self.tokenizer
        special = self._special(tokenizer)
        written = [self.writing.write(row.messages) for row in rows]
        texts = [part.text for parts in written for part in parts if not part.is_special]
        encoded = iter(tokenizer.encode_all(texts))
        examples: list[Mapping[str, Any]] = []
        for parts in written:
            tokens: list[int] = []
            answers: list[int] = []
            for part in parts:
                if part.is_answer != len(answers) % 2:
                    answers.append(len(tokens))
                tokens += [special[part.text]] if part.is_special else next(encoded)
            if len(answers) % 2:
                answers.append(len(tokens))
            examples.append({"tokens": tokens, "answers": answers})
        return examples

    def _special(self, tokenizer: Tokenizer) -> dict[str, int]:
        ids = ids_of(tokenizer)
        special = {"{bos}": ids.bos, "{eos}": ids.eos} | dict(self.special_ids)
        pieces = _pieces(tokenizer)
        id_of = {string: special.get(string, pieces.get(string)) for string in self.writing.special_strings}
        missing = [string for string, token_id in id_of.items() if token_id is None]
        if missing:
            raise ValueError(
                f"task {self.name!r}: the vocabulary {self.vocabulary!r} has no piece {', '.join(map(repr, missing))}; "
                "use the vocabulary or the template of the model, or give ids to use instead: "
                f"special_ids={{{missing[0]!r}: {ids.first_sentinel}, …}}"
            )
        wrong = {
            string: token_id
            for string, token_id in id_of.items()
            if not 0 <= (token_id or 0) < ids.vocab_size
        }
        if wrong:
            raise ValueError(
                f"task {self.name!r}: special_ids {wrong} lie outside the vocabulary's {ids.vocab_size} ids"
            )
        return {string: token_id for string, token_id in id_of.items() if token_id is not None}

    def _conversation(self, row: Row) -> Conversation:
        messages = messages_of(row, self.column, self.writing)
        if all(role != self.writing.answering_role for role, _ in messages):
            raise ValueError(
                f"column {self.column!r}: no message of {self.writing.answering_role!r}: there is nothing to learn"
            )
        return Conversation(messages, row.location)


def messages_of(row: Row, column: str, template: ChatTemplate) -> Messages:
    """Return the messages of a row's column, pairs of role and content.

    Args:
      row: Row of a file.
      column: Name of the column.
      template: Format, which knows some roles.

    Raises:
      ValueError: There is no such column, or its cell is no list of such messages.
    """
    if column not in row.cells:
        raise ValueError(f"no column {column!r}; the columns are {', '.join(row.cells) or 'none'}")
    try:
        return _messages(row.cells[column], template)
    except ValueError as error:
        raise ValueError(f"column {column!r}: {error}") from None


def _messages(cell: Cell, template: ChatTemplate) -> Messages:
    expected = '[{"role": …, "content": …}, …]'
    listed = list_of(cell, expected)
    if not all(isinstance(message, dict) for message in listed):
        raise ValueError(f"{expected} is expected")
    for index, message in enumerate(listed):
        for key in ("role", "content"):
            if not isinstance(message.get(key), str):
                raise ValueError(f"message {index} needs a {key!r} that is text, got {message.get(key)!r}")
        if message["role"] not in template.turns:
            raise ValueError(
                f"the template has no turn for {message['role']!r} of message {index}, only for "
                f"{', '.join(template.roles)}"
            )
    return tuple((message["role"], message["content"]) for message in listed)


@functools.lru_cache(maxsize=4)
def _pieces(tokenizer: Tokenizer) -> dict[str, int]:
    """Return ids by piece, the lowest one for pieces that occur several times."""
    size = tokenizer.vocab_size
    return {tokenizer.piece(token_id): token_id for token_id in range(size - 1, -1, -1)}
