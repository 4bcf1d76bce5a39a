"""Definitions for ``tokenizers`` of other files: BERT's ``vocab.txt``, GPT's ``merges.txt``, lists of words."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from t5x_like.text.vocabularies.hugging_face_tokenizer import CHARACTER_OF, Definition

END_OF_WORD = "</w>"
SPACE = "▁"  # SentencePiece's mark
_LONGEST_WORD = 100  # characters, as in BERT; longer words are unknown


def word_piece(
    pieces: Sequence[str], *, configuration: Mapping[str, Any], lower_case: bool | None
) -> Definition:
    """Return BERT's basic tokenizer and WordPiece (Devlin et al. 2019; google-research/bert, tokenization.py).

    Args:
      pieces: Pieces by id.
      configuration: Content of a ``tokenizer_config.json``.
      lower_case: Convert text to lower case and remove accents. None follows ``do_lower_case`` of the configuration,
        or is True if no piece has a capital letter.
    """
    numbers = {piece: number for number, piece in enumerate(pieces) if piece}
    lower_case = configuration.get("do_lower_case") if lower_case is None else lower_case
    unknown = str(_content(configuration.get("unk_token")) or "[UNK]")
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": bool(configuration.get("tokenize_chinese_chars", True)),
            "strip_accents": configuration.get("strip_accents"),
            "lowercase": is_lower_case(pieces) if lower_case is None else bool(lower_case),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": unknown,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": _LONGEST_WORD,
            "vocab": numbers,
        },
    }


def byte_pair(
    numbers: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    configuration: Mapping[str, Any],
    lower_case: bool | None,
) -> Definition:
    """Return GPT-2's byte-level BPE, or Sennrich's, as in GPT, if pieces end words with ``</w>``.

    Args:
      numbers: Id of each piece.
      merges: Pairs of pieces, by priority.
      configuration: Content of a ``tokenizer_config.json``.
      lower_case: As in ``word_piece``; for Sennrich's.

    Raises:
      ValueError: Pieces include neither all bytes nor ends of words.
    """
    if any(piece.endswith(END_OF_WORD) for piece in numbers):
        lower_case = configuration.get("do_lower_case") if lower_case is None else lower_case
        lower = is_lower_case(list(numbers)) if lower_case is None else bool(lower_case)
        return sennrich(numbers, merges, lower_case=lower)
    missing = [byte for byte, character in CHARACTER_OF.items() if character not in numbers]
    if missing:
        raise ValueError(
            f"no piece ends a word with {END_OF_WORD!r}, and {len(missing)} of 256 bytes have no piece (byte "
            f"{missing[0]} first): neither Sennrich's nor GPT-2's byte pairs"
        )
    return byte_level(numbers, merges, prefix_space=bool(configuration.get("add_prefix_space", False)))


def byte_level(
    numbers: Mapping[str, int], merges: Sequence[tuple[str, str]], *, prefix_space: bool
) -> Definition:
    """Return GPT-2's BPE over bytes (Radford et al. 2019, §2.2).

    Args:
      numbers: Id of each piece.
      merges: Pairs of pieces, by priority.
      prefix_space: Add a space before the text.
    """
    level = {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": level,
        "decoder": level,
        "model": _byte_pair_model(numbers, merges),
    }


def sennrich(
    numbers: Mapping[str, int], merges: Sequence[tuple[str, str]], *, lower_case: bool
) -> Definition:
    """Return BPE over the characters of words, with the last one marked (Sennrich et al. 2016, arXiv:1508.07909).

    Args:
      numbers: Id of each piece.
      merges: Pairs of pieces, by priority.
      lower_case: Convert text to lower case.
    """
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": lower_case,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "BPEDecoder", "suffix": END_OF_WORD},
        "model": {
            **_byte_pair_model(numbers, merges),
            "unk_token": "<unk>" if "<unk>" in numbers else None,
            "end_of_word_suffix": END_OF_WORD,
        },
    }


def sentencepiece_byte_pair(
    numbers: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    unknown: str | None,
    prefix_space: bool,
) -> Definition:
    """Return SentencePiece's BPE, which spells characters without a piece as bytes, as in Llama 2.

    Args:
      numbers: Id of each piece.
      merges: Pairs of pieces, by priority.
      unknown: Piece of bytes that have no piece.
      prefix_space: Add a space before the text.
    """
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix_space else []
    decoders = [_replace(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": _marked_spaces(prefix_space=prefix_space)},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            **_byte_pair_model(numbers, merges),
            "unk_token": unknown,
            "fuse_unk": True,
            "byte_fallback": True,
        },
    }


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
    compiled = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    squeezed = [_replace({"Regex": "^ +| +$"}, ""), _replace({"Regex": " {2,}"}, " ")]
    steps = [*([compiled] if charsmap else []), *(squeezed if squeeze else [])]
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix_space else []
    bytes_back = [{"type": "ByteFallback"}] if has_bytes else []
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*steps, *_marked_spaces(prefix_space=prefix_space)],
        },
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [_replace(SPACE, " "), *bytes_back, {"type": "Fuse"}, *strip],
        },
        "model": {
            "type": "Unigram",
            "unk_id": unknown,
            "vocab": [list(piece) for piece in pieces],
            "byte_fallback": has_bytes,
        },
    }


def _marked_spaces(*, prefix_space: bool) -> list[dict[str, Any]]:
    prefix = [{"type": "Prepend", "prepend": SPACE}] if prefix_space else []
    return [*prefix, _replace(" ", SPACE)]


def _replace(pattern: str | Mapping[str, str], content: str) -> dict[str, Any]:
    found = {"String": pattern} if isinstance(pattern, str) else dict(pattern)
    return {"type": "Replace", "pattern": found, "content": content}


def words(pieces: Sequence[str], *, lower_case: bool, punctuation_apart: bool) -> Definition:
    """Return a vocabulary of whole words.

    Args:
      pieces: Words by id; the third one is the unknown word.
      lower_case: Convert text to lower case.
      punctuation_apart: Separate punctuation from letters.
    """
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"} if lower_case else None,
        "pre_tokenizer": {"type": "Whitespace" if punctuation_apart else "WhitespaceSplit"},
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "unk_token": pieces[2],
            "vocab": {piece: number for number, piece in enumerate(pieces)},
        },
    }


def is_lower_case(pieces: Sequence[str]) -> bool:
    """Return whether no piece except special ones has a capital letter."""
    return all(piece == piece.lower() or piece[:1] in "[<" for piece in pieces)


def _byte_pair_model(numbers: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": dict(numbers),
        "merges": [list(pair) for pair in merges],
    }


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, Mapping) else token
