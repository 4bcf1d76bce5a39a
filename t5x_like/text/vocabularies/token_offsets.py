"""Positions of tokens in a text, for annotations given in characters."""

from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.vocabularies.tokenizer import Tokenizer, require_valid_unicode


class TokenOffsets(NamedTuple):
    """Tokens with their character offsets, both non-decreasing.

    Attributes:
      ids: Token ids.
      starts: First character of each token, int64 [T].
      ends: Character after each token, int64 [T].
    """

    ids: list[int]
    starts: np.ndarray
    ends: np.ndarray


def encode_with_offsets(tokenizer: Tokenizer, text: str) -> TokenOffsets:
    """Encode a text, and return the characters that each token covers.

    A token of part of a character's bytes covers the whole character.

    Args:
      tokenizer: Tokenizer.
      text: Text to encode.

    Raises:
      ValueError: This kind of vocabulary has no offsets, or the text is invalid.
    """
    text = require_valid_unicode(text)
    if tokenizer.kind == "bytes":
        return _of_bytes(tokenizer.encode(text), [1] * len(text.encode()), text)
    if tokenizer.kind == "characters":
        numbers = np.arange(len(text))
        return TokenOffsets(tokenizer.encode(text), numbers, numbers + 1)
    if tokenizer.kind == "tiktoken":
        ids = tokenizer.encode(text)
        return _of_bytes(ids, [len(tokenizer._bytes_of[token_id]) for token_id in ids], text)  # pyright: ignore
    if tokenizer.kind == "sentencepiece" and not tokenizer.normalizes:  # pyright: ignore
        return _of_sentencepiece(tokenizer._engine, text)  # pyright: ignore
    if hasattr(tokenizer, "definition"):
        encoded = tokenizer._engine.encode(text, add_special_tokens=False)  # pyright: ignore
        return _placed(
            [(token_id, *place) for token_id, place in zip(encoded.ids, encoded.offsets, strict=True)]
        )
    raise ValueError(
        f"{tokenizer.name!r} changes text before splitting it, so offsets of its pieces are unknown; annotations in "
        "characters need a WordPiece, tokenizer.json, plain SentencePiece, tiktoken, bytes or characters vocabulary"
    )


def first_token(placed: TokenOffsets, start: int, end: int) -> int | None:
    """Return the first token that has a character of a span; None if none has.

    Args:
      placed: Tokens.
      start: First character of the span.
      end: Character after the last.
    """
    first = int(np.searchsorted(placed.ends, start, side="right"))
    return first if first < int(np.searchsorted(placed.starts, end, side="left")) else None


def _of_sentencepiece(engine: Any, text: str) -> TokenOffsets:
    from sentencepiece import sentencepiece_pb2

    # All versions have the serialized form; its offsets are in bytes of UTF-8.
    parsed = sentencepiece_pb2.SentencePieceText.FromString(  # pyright: ignore[reportAttributeAccessIssue]
        engine.EncodeAsSerializedProto(text)
    )
    edges = np.cumsum([0, *(len(character.encode()) for character in text)])
    starts = np.searchsorted(edges, [piece.begin for piece in parsed.pieces], side="right") - 1
    ends = np.searchsorted(edges, [piece.end for piece in parsed.pieces], side="left")
    return TokenOffsets([piece.id for piece in parsed.pieces], starts, ends)


def _placed(pieces: list[tuple[int, int, int]]) -> TokenOffsets:
    ids = [piece[0] for piece in pieces]
    places = np.array([piece[1:] for piece in pieces], np.int64).reshape(-1, 2)
    return TokenOffsets(ids, places[:, 0], places[:, 1])


def _of_bytes(ids: list[int], lengths: list[int], text: str) -> TokenOffsets:
    """Return offsets of tokens with these lengths in bytes."""
    sizes = [len(character.encode()) for character in text]
    character_of = np.repeat(np.arange(len(text)), sizes)
    ends = np.cumsum(np.array(lengths, np.int64))
    starts = ends - lengths
    return TokenOffsets(ids, character_of[starts], character_of[ends - 1] + 1)
