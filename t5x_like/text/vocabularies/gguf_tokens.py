"""Tokens of a GGUF file, and the special ids among them."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from t5x_like.value_types import fits

# Ids that a file means which names none, by the kind of the tokenizer (llama-vocab.cpp).
_USUAL_IDS: Mapping[str, Mapping[str, int]] = {
    "llama": {"bos": 1, "eos": 2, "unknown": 0},
    "t5": {"eos": 1, "unknown": 2, "padding": 0},
    "bert": {"bos": 101, "unknown": 100, "seperator": 102, "padding": 0, "mask": 103},
}


class TokenKind(IntEnum):
    """llama.cpp's kinds of tokens; SentencePiece numbers its own in the same way."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class GgufToken(NamedTuple):
    """Token of a GGUF file."""

    text: str
    score: float
    kind: int


class TokenizerFields(NamedTuple):
    """Facts that the metadata has on a tokenizer.

    Attributes:
      values: Values under ``tokenizer.ggml``, without that prefix.
      tokens: Tokens by id.
      special: Ids by the names that the metadata gives them, such as ``bos`` and ``padding``.
    """

    values: Mapping[str, Any]
    tokens: Sequence[GgufToken]
    special: Mapping[str, int]

    @property
    def numbers(self) -> dict[str, int]:
        """Id of each token."""
        return {token.text: index for index, token in enumerate(self.tokens)}

    def text_of(self, name: str) -> str | None:
        """Return the token of a special id; ``None`` if there is no such id."""
        return self.tokens[self.special[name]].text if name in self.special else None

    def of_kind(self, *kinds: TokenKind) -> list[int]:
        """Return the ids of tokens of some kinds."""
        return [index for index, token in enumerate(self.tokens) if token.kind in kinds]


def tokenizer_fields(values: Mapping[str, Any]) -> TokenizerFields:
    """Return the fields of a tokenizer, without the last rows that only fill a table of embeddings.

    Args:
      values: Values under ``tokenizer.ggml``, without that prefix.

    Raises:
      ValueError: There are no tokens, lists differ in length, or two tokens are equal.
    """
    tokens = _tokens(values)
    ids = dict(_USUAL_IDS.get(values["model"], {}))
    ids |= {
        name.removesuffix("_token_id"): value for name, value in values.items() if name.endswith("_token_id")
    }
    # llama.cpp ignores ids beyond the tokens too; files have -1 for a missing one.
    return TokenizerFields(
        values, tokens, {name: token_id for name, token_id in ids.items() if 0 <= token_id < len(tokens)}
    )


def _tokens(values: Mapping[str, Any]) -> list[GgufToken]:
    texts = values.get("tokens")
    if not texts or not fits(texts, list[str]):
        raise ValueError("tokenizer.ggml.tokens is missing, or holds no texts")
    columns = {
        "scores": values.get("scores", [0.0] * len(texts)),
        "token_type": values.get("token_type", [TokenKind.NORMAL] * len(texts)),
    }
    for name, column in columns.items():
        if not isinstance(column, list) or len(column) < len(texts):
            raise ValueError(f"tokenizer.ggml.{name} has not a value for each of {len(texts):,} tokens")
    named = [text or f"[EMPTY_{index}]" for index, text in enumerate(texts)]
    tokens = [GgufToken(*row) for row in zip(named, *columns.values(), strict=False)]
    while tokens and tokens[-1].kind == TokenKind.UNUSED and tokens[-1].text == f"[PAD{len(tokens) - 1}]":
        tokens.pop()
    seen: set[str] = set()
    for index, token in enumerate(tokens):
        if token.text in seen:
            raise ValueError(f"the token {token.text!r} is there twice, id {index} again")
        seen.add(token.text)
    return tokens
