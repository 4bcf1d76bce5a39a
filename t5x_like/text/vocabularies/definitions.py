"""Definitions for ``tokenizers`` of other files: BERT's ``vocab.txt``, GPT's ``merges.txt``, lists of words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from t5x_like.text.vocabularies.hugging_face_tokenizer import CHARACTER_OF, Definition
from t5x_like.text.vocabularies.roles import content_of

END_OF_WORD = "</w>"
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
    numbers = {piece: index for index, piece in enumerate(pieces) if piece}
    lower_case = configuration.get("do_lower_case") if lower_case is None else lower_case
    unknown = content_of(configuration.get("unk_token")) or "[UNK]"
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
      lower_case: Lower case for Sennrich's pieces; see ``word_piece``.

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
        "model": byte_pair_model(numbers, merges),
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
            **byte_pair_model(numbers, merges),
            "unk_token": "<unk>" if "<unk>" in numbers else None,
            "end_of_word_suffix": END_OF_WORD,
        },
    }


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
            "vocab": {piece: index for index, piece in enumerate(pieces)},
        },
    }


def added_token(piece: str, token_id: int, *, special: bool) -> dict[str, object]:
    """Return an item of ``added_tokens``, which is found in text before all other pieces.

    Args:
      piece: String of the token.
      token_id: Its id.
      special: Decoding can leave it out.
    """
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": piece, **flags, "special": special}


def template_of(
    piece_of: Callable[[int], str],
    *,
    start: Sequence[int],
    between: Sequence[tuple[int, int]],
    end: Sequence[int],
) -> dict[str, object] | None:
    """Return the ``post_processor`` that adds special ids to texts; None if there are none.

    Args:
      piece_of: Returns the string of an id.
      start: Ids before the first text.
      between: Ids between two texts, with their token types.
      end: Ids after the last text.
    """
    if not (start or between or end):
        return None

    def special(token_id: int, part: int) -> dict[str, object]:
        return {"SpecialToken": {"id": piece_of(token_id), "type_id": part}}

    first, second = ({"Sequence": {"id": name, "type_id": part}} for part, name in enumerate("AB"))
    before, after = [[special(n, part) for n in end] for part in (0, 1)]
    begin = [special(token_id, 0) for token_id in start]
    pieces = {n: piece_of(n) for n in (*start, *(token_id for token_id, _ in between), *end)}
    return {
        "type": "TemplateProcessing",
        "single": [*begin, first, *before],
        "pair": [*begin, first, *(special(*each) for each in between), second, *after],
        "special_tokens": {
            piece: {"id": piece, "ids": [token_id], "tokens": [piece]} for token_id, piece in pieces.items()
        },
    }


def is_lower_case(pieces: Sequence[str]) -> bool:
    """Return whether no piece except special ones has a capital letter."""
    return all(piece == piece.lower() or piece[:1] in "[<" for piece in pieces)


def byte_pair_model(numbers: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return the ``model`` of byte pairs, without options.

    Args:
      numbers: Id of each piece.
      merges: Pairs of pieces, by priority.
    """
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
