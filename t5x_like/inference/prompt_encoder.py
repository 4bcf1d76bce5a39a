"""Text to the ids that a model reads, for evaluation, ``from_pretrained``, serving and exports."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds


@runtime_checkable
class TextCodec(Protocol):
    """Protocol of our tokenizers and of ``seqio_bridge.evaluation_rows.SeqioCodec``."""

    @property
    def special(self) -> SpecialTokenIds:
        """Special ids, such as the end of sequence."""
        ...

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts, without an end of sequence."""
        ...

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids."""
        ...


@dataclass(frozen=True, kw_only=True)
class PromptEncoder:
    """Encoder of texts with the special ids that a model reads around them.

    Attributes:
      tokenizer: Text to ids and back.
      prefix_ids: Ids before every text, such as [CLS], or LLaMA's beginning of sequence.
      suffix_ids: Ids after every text, such as [SEP], or T5's end of sequence.
      empty_ids: Ids in place of a prompt without any, which no model could continue.
      max_length: Number of tokens that longer texts are cut to, special ones included; ``None`` for no cut.
    """

    tokenizer: TextCodec
    prefix_ids: tuple[int, ...] = ()
    suffix_ids: tuple[int, ...] = ()
    empty_ids: tuple[int, ...] = ()
    max_length: int | None = None

    def with_special_ids(self, ids: Sequence[int]) -> list[int]:
        """Return the ids of a text between the special ones."""
        return [*self.prefix_ids, *ids, *self.suffix_ids] or list(self.empty_ids)

    def encode(self, text: str, max_length: int | None = None) -> list[int]:
        """Return the ids of a text with special ones.

        Args:
          text: Text to encode.
          max_length: Number of tokens to cut the text to, special ones included; only as the model needs if not given.

        Raises:
          ValueError: The special ids alone are more than ``max_length``.
        """
        (ids,) = self.tokenizer.encode_all([text])
        limit = min((each for each in (self.max_length, max_length) if each is not None), default=None)
        if limit is not None:
            num_special = len(self.prefix_ids) + len(self.suffix_ids)
            if limit < max(num_special, 1):
                raise ValueError(
                    f"max_length is {limit}, and each text has {num_special} special tokens; give a larger one"
                )
            ids = ids[: limit - num_special]
        return self.with_special_ids(ids)
