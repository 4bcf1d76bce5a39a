"""Where in a text each of its tokens lies, for annotations that are given in characters."""

from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.vocabularies.tokenizer import Tokenizer, require_valid_unicode


class TokenOffsets(NamedTuple):
    """Tokens, each from its ``starts`` up to its ``ends``, in characters of the text; both never fall."""

    ids: list[int]
    starts: np.ndarray  # int64 [tokens]
    ends: np.ndarray  # int64 [tokens]


def encode_with_offsets(tokenizer: Tokenizer, text: str) -> TokenOffsets:
    """``tokenizer.encode(text)``, and the characters that each token stands for.

    A token of some of a character's bytes lies where the character does.

    Raises:
      ValueError: this kind of vocabulary doesn't tell, or the text isn't valid.
    """
    text = require_valid_unicode(text)
    if tokenizer.kind == "bytes":
        return _of_bytes(tokenizer.encode(text), [1] * len(text.encode()), text)
    if tokenizer.kind == "characters":
        numbers = np.arange(len(text))
        return TokenOffsets(tokenizer.encode(text), numbers, numbers + 1)
    if tokenizer.kind == "tiktoken":
        ids = tokenizer.encode(text)
        return _of_bytes(ids, [len(tokenizer._bytes_of[number]) for number in ids], text)  # pyright: ignore
    if tokenizer.kind == "sentencepiece" and not tokenizer.is_prepared:  # pyright: ignore
        return _of_sentencepiece(tokenizer._engine, text)  # pyright: ignore
    if hasattr(tokenizer, "definition"):
        encoded = tokenizer._engine.encode(text, add_special_tokens=False)  # pyright: ignore
        return _placed([(number, *place) for number, place in zip(encoded.ids, encoded.offsets, strict=True)])
    raise ValueError(
        f"{tokenizer.name!r} changes text before it cuts it and doesn't say where its pieces were; annotations in "
        "characters need a WordPiece, tokenizer.json, plain SentencePiece, tiktoken, bytes or characters vocabulary"
    )


def _of_sentencepiece(engine: Any, text: str) -> TokenOffsets:
    from sentencepiece import sentencepiece_pb2

    # The serialised form is the one that all versions have; its places are in bytes of UTF-8.
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
    """Tokens of so many bytes of UTF-8 each."""
    sizes = [len(character.encode()) for character in text]
    character_of = np.repeat(np.arange(len(text)), sizes)
    ends = np.cumsum(np.array(lengths, np.int64))
    starts = ends - lengths
    return TokenOffsets(ids, character_of[starts], character_of[ends - 1] + 1)
