"""The ``tokenizer.json`` of a tokenizer of any kind, from which ``tokenizers`` gives the same ids."""

from typing import Any

from t5x_like.text.vocabularies.byte_tokenizer import ByteTokenizer
from t5x_like.text.vocabularies.definitions import added_token
from t5x_like.text.vocabularies.hugging_face_tokenizer import Definition, HuggingFaceTokenizer
from t5x_like.text.vocabularies.roles import is_markup
from t5x_like.text.vocabularies.sentencepiece_definitions import (
    merges_of,
    sentencepiece_byte_pair,
    sentencepiece_unigram,
    spelled_as_bytes,
)
from t5x_like.text.vocabularies.sentencepiece_tokenizer import SentencePieceTokenizer, parse_model
from t5x_like.text.vocabularies.tokenizer import Tokenizer


def definition_of(tokenizer: Tokenizer) -> Definition:
    """Return the content of a ``tokenizer.json``, without a ``post_processor``.

    Special ids and sentinels are special tokens: other than in our own reading, text can spell them.

    Raises:
      ValueError: The library ``tokenizers`` has no such tokenizer.
    """
    if isinstance(tokenizer, SentencePieceTokenizer):
        definition, special = _of_sentencepiece(tokenizer)
    elif isinstance(tokenizer, HuggingFaceTokenizer):
        definition, special = tokenizer.definition, set()
    elif isinstance(tokenizer, ByteTokenizer):
        pieces = [tokenizer.piece(token_id) for token_id in range(tokenizer.num_special)]
        definition, special = spelled_as_bytes(pieces, unknown=pieces[-1]), set()
    else:
        raise ValueError(f"the library tokenizers has no tokenizer of the kind {tokenizer.kind}")
    special |= {token_id for token_id in tokenizer.special.by_role.values() if token_id is not None}
    special |= set(range(tokenizer.vocab_size - tokenizer.num_sentinels, tokenizer.vocab_size))
    tokens = {token["id"]: token for token in definition["added_tokens"]}
    tokens |= {
        token_id: added_token(tokenizer.piece(token_id), token_id, special=True) for token_id in special
    }
    return {
        **definition,
        "truncation": None,
        "padding": None,
        "added_tokens": [tokens[token_id] for token_id in sorted(tokens)],
    }


def _of_sentencepiece(tokenizer: SentencePieceTokenizer) -> tuple[Definition, set[int]]:
    """Return the definition of a model, and the ids that no text has."""
    proto = parse_model(tokenizer.name, tokenizer.model_with_sentinels)
    trainer, normalizer, kinds = proto.trainer_spec, proto.normalizer_spec, proto.SentencePiece
    if trainer.model_type not in (trainer.UNIGRAM, trainer.BPE):
        raise ValueError("the library tokenizers has no SentencePiece model of words or characters")
    if tokenizer.normalizes or trainer.treat_whitespace_as_suffix:
        raise ValueError("the library tokenizers can't normalize text as this SentencePiece model does")
    pieces = [
        tokenizer.piece(token_id) if tokenizer.is_sentinel(token_id) else piece.piece
        for token_id, piece in enumerate(proto.pieces)
    ]
    options: dict[str, Any] = {
        "prefix_space": normalizer.add_dummy_prefix,
        "charsmap": normalizer.precompiled_charsmap,
        "squeeze": normalizer.remove_extra_whitespaces,
        "has_bytes": any(piece.type == kinds.BYTE for piece in proto.pieces),
    }
    unknown = next(token_id for token_id, piece in enumerate(proto.pieces) if piece.type == kinds.UNKNOWN)
    if trainer.model_type == trainer.UNIGRAM:
        scored = [(piece, each.score) for piece, each in zip(pieces, proto.pieces, strict=True)]
        definition = sentencepiece_unigram(scored, unknown=unknown, **options)
    else:
        numbers = {piece: token_id for token_id, piece in enumerate(pieces)}
        normal = [token_id for token_id, piece in enumerate(proto.pieces) if piece.type == kinds.NORMAL]
        by_score = sorted(normal, key=lambda token_id: -proto.pieces[token_id].score)
        merges = merges_of((pieces[token_id] for token_id in by_score), numbers)
        definition = sentencepiece_byte_pair(numbers, merges, unknown=pieces[unknown], **options)
    of_user = [
        added_token(piece, token_id, special=False)
        for token_id, piece in enumerate(pieces)
        if proto.pieces[token_id].type == kinds.USER_DEFINED and not is_markup(piece)
    ]
    unreached = (kinds.CONTROL, kinds.UNKNOWN, kinds.UNUSED)
    special = {n for n, each in enumerate(proto.pieces) if each.type in unreached or is_markup(pieces[n])}
    return {**definition, "added_tokens": of_user}, special
