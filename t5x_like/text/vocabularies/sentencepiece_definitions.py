"""Definitions for ``tokenizers`` of SentencePiece's models, and of bytes."""

import base64
from collections.abc import Iterable, Mapping, Sequence

from t5x_like.text.vocabularies.definitions import byte_pair_model
from t5x_like.text.vocabularies.hugging_face_tokenizer import Definition

SPACE = "▁"  # SentencePiece's mark


def sentencepiece_byte_pair(
    numbers: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    unknown: str | None,
    prefix_space: bool,
    charsmap: bytes = b"",
    squeeze: bool = False,
    has_bytes: bool = True,
) -> Definition:
    """Return SentencePiece's BPE, as in Llama 2.

    Args:
      numbers: Id of each piece.
      merges: Pairs of pieces, by priority.
      unknown: Piece of characters or bytes that have no piece.
      prefix_space: Add a space before the text.
      charsmap: SentencePiece's compiled rules of normalization; empty for none.
      squeeze: Remove spaces at the ends, and all but one between words.
      has_bytes: Spell characters without a piece as bytes.
    """
    pairs = byte_pair_model(numbers, merges)
    model = {**pairs, "unk_token": unknown, "fuse_unk": True, "byte_fallback": has_bytes}
    normalizer = _normalizer(charsmap, squeeze=squeeze, prefix_space=prefix_space)
    return _definition(model, normalizer, _decoder(has_bytes=has_bytes, prefix_space=prefix_space))


def merges_of(pieces: Iterable[str], numbers: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the merges that make pieces of SentencePiece's BPE.

    Args:
      pieces: Pieces by priority.
      numbers: Id of each piece.
    """
    halves = ((piece[:cut], piece[cut:]) for piece in pieces for cut in range(1, len(piece)))
    return [(left, right) for left, right in halves if left in numbers and right in numbers]


def spelled_as_bytes(special: Sequence[str], *, unknown: str) -> Definition:
    """Return a vocabulary of the 256 bytes of UTF-8, after special pieces, as in ByT5.

    Args:
      special: Special pieces by id.
      unknown: Special piece for unknown text, which these bytes never need.
    """
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256))]
    numbers = {piece: index for index, piece in enumerate(pieces)}
    definition = sentencepiece_byte_pair(numbers, [], unknown=unknown, prefix_space=False)
    decoders = [{"type": "ByteFallback"}, {"type": "Fuse"}]
    return {**definition, "normalizer": None, "decoder": {"type": "Sequence", "decoders": decoders}}


def sentencepiece_unigram(
    pieces: Sequence[tuple[str, float]],
    *,
    unknown: int,
    charsmap: bytes,
    squeeze: bool,
    prefix_space: bool,
    has_bytes: bool,
) -> Definition:
    """Return SentencePiece's unigram model (Kudo 2018, https://arxiv.org/abs/1804.10959), as in T5.

    Args:
      pieces: Pieces with their log-probabilities, by id.
      unknown: Id of characters that have no piece.
      charsmap: SentencePiece's compiled rules of normalization; empty for none.
      squeeze: Remove spaces at the ends, and all but one between words.
      prefix_space: Add a space before the text.
      has_bytes: Spell characters without a piece as bytes.
    """
    vocabulary = [list(piece) for piece in pieces]
    model = {"type": "Unigram", "unk_id": unknown, "vocab": vocabulary, "byte_fallback": has_bytes}
    normalizer = _normalizer(charsmap, squeeze=squeeze, prefix_space=prefix_space)
    return _definition(model, normalizer, _decoder(has_bytes=has_bytes, prefix_space=prefix_space))


def _definition(model: Mapping[str, object], normalizer: object, decoder: object) -> Definition:
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": None,
        "decoder": decoder,
        "model": model,
    }


def _normalizer(charsmap: bytes, *, squeeze: bool, prefix_space: bool) -> dict[str, object]:
    compiled = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    squeezed = [_replace("", Regex="^ +| +$"), _replace(" ", Regex=" {2,}")]
    prefix = [{"type": "Prepend", "prepend": SPACE}] if prefix_space else []
    steps = [*([compiled] if charsmap else []), *(squeezed if squeeze else []), *prefix]
    return {"type": "Sequence", "normalizers": [*steps, _replace(SPACE, String=" ")]}


def _decoder(*, has_bytes: bool, prefix_space: bool) -> dict[str, object]:
    bytes_back = [{"type": "ByteFallback"}] if has_bytes else []
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix_space else []
    return {
        "type": "Sequence",
        "decoders": [_replace(" ", String=SPACE), *bytes_back, {"type": "Fuse"}, *strip],
    }


def _replace(content: str, **pattern: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": pattern, "content": content}
