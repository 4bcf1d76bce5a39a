"""Definitions for ``tokenizers`` of the kinds of tokenizers that GGUF files have."""

from collections.abc import Callable, Mapping, Sequence

from t5x_like.text.vocabularies.byte_level_splits import PATTERNS, WITH_WHOLE_WORDS, pre_tokenizer
from t5x_like.text.vocabularies.definitions import added_token, byte_level, word_piece
from t5x_like.text.vocabularies.gguf_tokens import TokenizerFields, TokenKind
from t5x_like.text.vocabularies.hugging_face_tokenizer import Definition
from t5x_like.text.vocabularies.sentencepiece_definitions import (
    SPACE,
    merges_of,
    sentencepiece_byte_pair,
    sentencepiece_unigram,
)


def _byte_level(fields: TokenizerFields) -> Definition:
    """Return GPT-2's BPE with the file's way to cut words.

    Raises:
      ValueError: There are no merges, or the way is not known.
    """
    name = fields.values.get("pre", "default")
    if name not in PATTERNS:
        raise ValueError(
            f"tokenizer.ggml.pre is {name!r}, a way to cut words that is not known; {', '.join(sorted(PATTERNS))} "
            "are. Name the model's own tokenizer: vocabulary=PATH"
        )
    if "merges" not in fields.values:
        raise ValueError("tokenizer.ggml.merges is missing")
    # A piece may begin with a space, so that the space between two is not the first character.
    cuts = [(pair, pair.find(" ", 1)) for pair in fields.values["merges"]]
    merges = [(pair[:cut], pair[cut + 1 :]) for pair, cut in cuts]
    definition = byte_level(fields.numbers, merges, prefix_space=False)
    return {
        **definition,
        "added_tokens": _added(fields, ()),
        "pre_tokenizer": pre_tokenizer(PATTERNS[name]),
        "model": {**definition["model"], "ignore_merges": name in WITH_WHOLE_WORDS},
    }


def _byte_pair(fields: TokenizerFields) -> Definition:
    """Return SentencePiece's BPE; the score of a token is the priority of the merges that make it.

    Raises:
      ValueError: There are no scores.
    """
    if "scores" not in fields.values:
        raise ValueError("tokenizer.ggml.scores is missing")
    numbers, tokens = fields.numbers, fields.tokens
    by_score = sorted(fields.of_kind(TokenKind.NORMAL), key=lambda token_id: -tokens[token_id].score)
    definition = sentencepiece_byte_pair(
        numbers,
        merges_of((tokens[token_id].text for token_id in by_score), numbers),
        unknown=fields.text_of("unknown"),
        prefix_space=bool(fields.values.get("add_space_prefix", True)),
    )
    return {**definition, "added_tokens": _added(fields, fields.of_kind(TokenKind.UNKNOWN))}


def _unigram(fields: TokenizerFields) -> Definition:
    """Return SentencePiece's unigram model. Text doesn't reach tokens that are of no use or stand for bytes.

    Raises:
      ValueError: There is no unknown token, or there are no scores.
    """
    if "scores" not in fields.values or "unknown" not in fields.special:
        missing = "scores" if "scores" not in fields.values else "unknown_token_id"
        raise ValueError(f"tokenizer.ggml.{missing} is missing")
    charsmap = fields.values.get("precompiled_charsmap", ())
    definition = sentencepiece_unigram(
        [(token.text, token.score) for token in fields.tokens],
        unknown=fields.special["unknown"],
        charsmap=bytes(byte % 256 for byte in charsmap),
        squeeze=bool(fields.values.get("remove_extra_whitespaces", False)),
        prefix_space=bool(fields.values.get("add_space_prefix", False)),
        has_bytes=bool(fields.of_kind(TokenKind.BYTE)),
    )
    return {**definition, "added_tokens": _added(fields, fields.of_kind(TokenKind.UNKNOWN, TokenKind.UNUSED))}


def _word_piece(fields: TokenizerFields) -> Definition:
    """Return BERT's WordPiece. In the file pieces that begin words have a mark, and the others none."""
    pieces = [
        token.text.removeprefix(SPACE)
        if token.text.startswith(SPACE)
        else token.text
        if token.kind != TokenKind.NORMAL or (token.text.startswith("[") and token.text.endswith("]"))
        else f"##{token.text}"
        for token in fields.tokens
    ]
    lower_case = bool(fields.values.get("normalizer.lowercase", True))
    options = {
        "unk_token": fields.text_of("unknown"),
        "strip_accents": bool(fields.values.get("normalizer.strip_accents", lower_case)),
    }
    definition = word_piece(pieces, configuration=options, lower_case=lower_case)
    return {**definition, "added_tokens": _added(fields, fields.of_kind(TokenKind.UNKNOWN))}


def _added(fields: TokenizerFields, special: Sequence[int]) -> list[dict[str, object]]:
    """Return the ``added_tokens``: special ones, and those that are found in text before all others."""
    ids = {*special, *fields.of_kind(TokenKind.CONTROL, TokenKind.USER_DEFINED)}
    return [
        added_token(
            fields.tokens[token_id].text,
            token_id,
            special=token_id in special or fields.tokens[token_id].kind == TokenKind.CONTROL,
        )
        for token_id in sorted(ids)
    ]


# By tokenizer.ggml.model.
DEFINITIONS: Mapping[str, Callable[[TokenizerFields], Definition]] = {
    "gpt2": _byte_level,
    "llama": _byte_pair,
    "t5": _unigram,
    "bert": _word_piece,
}
