"""Tokenizers as metadata of llama.cpp's ``.gguf`` files, under ``tokenizer.ggml``.

llama.cpp has three algorithms that our tokenizers use: ``t5`` (SentencePiece unigram), ``llama`` (SentencePiece BPE
with bytes as a last resort) and ``gpt2`` (BPE over bytes).
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from t5x_like.text.vocabularies.byte_level_splits import name_of_splits
from t5x_like.text.vocabularies.gguf_tokens import GgufToken, TokenKind
from t5x_like.text.vocabularies.hugging_face_tokenizer import (
    Definition,
    HuggingFaceTokenizer,
    pieces_of_merge,
)
from t5x_like.text.vocabularies.roles import is_markup
from t5x_like.text.vocabularies.sentencepiece_definitions import sentencepiece_unigram
from t5x_like.text.vocabularies.sentencepiece_tokenizer import SentencePieceTokenizer, parse_model
from t5x_like.text.vocabularies.tokenizer import Tokenizer


def tokenizer_metadata(tokenizer: Tokenizer, num_rows: int) -> dict[str, object]:
    """Return the metadata from which llama.cpp encodes and decodes as ``tokenizer`` does.

    llama.cpp adds a first and a last token if the other files of the tokenizer's folder say so, and else neither.

    Args:
      tokenizer: Tokenizer of the model.
      num_rows: Number of the embedding table's rows. Rows beyond the tokenizer's ids get names that no text has.

    Raises:
      ValueError: There is no such tokenizer in llama.cpp; says why.
    """
    if isinstance(tokenizer, SentencePieceTokenizer):
        tokens, metadata = _of_sentencepiece(tokenizer)
    elif isinstance(tokenizer, HuggingFaceTokenizer):
        tokens, metadata = _of_definition(tokenizer)
    else:
        raise ValueError(f"llama.cpp has no tokenizer of the kind {tokenizer.kind}")
    tokens = [
        *tokens,
        *(GgufToken(f"[PAD{row}]", 0.0, TokenKind.UNUSED) for row in range(len(tokens), num_rows)),
    ]
    metadata |= {
        "tokens": [token.text for token in tokens],
        "scores": [token.score for token in tokens],
        "token_type": [int(token.kind) for token in tokens],
    }
    metadata |= {"add_bos_token": bool(tokenizer.adds_bos), "add_eos_token": bool(tokenizer.adds_eos)}
    if tokenizer.special.unk is not None:
        metadata["unknown_token_id"] = tokenizer.special.unk
    named = {f"tokenizer.ggml.{name}": value for name, value in metadata.items()}
    return named | _chat_templates(tokenizer.chat_template)


def _chat_templates(template: object) -> dict[str, object]:
    """Return the metadata of a chat template, or of a list of named ones."""
    if not isinstance(template, list):
        return {} if template is None else {"tokenizer.chat_template": template}
    by_name = {each["name"]: each["template"] for each in template}
    named = {f"tokenizer.chat_template.{name}": by_name[name] for name in by_name if name != "default"}
    default = {"tokenizer.chat_template": by_name["default"]} if "default" in by_name else {}
    return {**default, "tokenizer.chat_templates": [name for name in by_name if name != "default"], **named}


def _of_sentencepiece(tokenizer: SentencePieceTokenizer) -> tuple[list[GgufToken], dict[str, object]]:
    proto = parse_model(tokenizer.name, tokenizer.model_with_sentinels)
    trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
    is_unigram = trainer.model_type == trainer.UNIGRAM
    if not is_unigram and trainer.model_type != trainer.BPE:
        raise ValueError(
            "llama.cpp reads SentencePiece models of kind unigram and BPE, not of words or characters"
        )
    if tokenizer.normalizes:
        raise ValueError("llama.cpp can't normalize text as ALBERT and XLNet do")
    if trainer.treat_whitespace_as_suffix:
        raise ValueError("llama.cpp can't put the mark of a space after words")
    if not is_unigram and not trainer.byte_fallback:
        raise ValueError("llama.cpp needs a piece for each byte in SentencePiece's BPE (byte_fallback)")
    if not is_unigram and (normalizer.precompiled_charsmap or normalizer.remove_extra_whitespaces):
        raise ValueError("llama.cpp can't normalize text for SentencePiece's BPE")
    tokens = [GgufToken(each.piece, each.score, _kind_of(each.piece, each.type)) for each in proto.pieces]
    metadata: dict[str, Any] = {"model": "t5" if is_unigram else "llama", "pre": "default"}
    metadata["add_space_prefix"] = normalizer.add_dummy_prefix
    if is_unigram:
        metadata["remove_extra_whitespaces"] = normalizer.remove_extra_whitespaces
        if normalizer.precompiled_charsmap:
            metadata["precompiled_charsmap"] = normalizer.precompiled_charsmap
    return tokens, metadata


def _kind_of(piece: str, kind: int) -> int:
    """Return the kind of a piece; text must not reach one that is no text, such as a sentinel."""
    ordinary = (TokenKind.NORMAL, TokenKind.USER_DEFINED)
    return TokenKind.CONTROL if kind in ordinary and is_markup(piece) else kind


def _of_definition(tokenizer: HuggingFaceTokenizer) -> tuple[list[GgufToken], dict[str, object]]:
    definition = tokenizer.definition
    model = definition["model"]
    if model["type"] == "Unigram":
        return _of_unigram(tokenizer)
    if model["type"] != "BPE" or model.get("end_of_word_suffix") or model.get("continuing_subword_prefix"):
        raise ValueError(
            f"llama.cpp reads BPE over bytes, and not {model['type']} of the kind {tokenizer.kind}"
        )
    merges = list(map(pieces_of_merge, model["merges"]))
    if model.get("byte_fallback"):
        return _with_byte_fallback(tokenizer, merges)
    metadata = {"model": "gpt2", "pre": _pattern_of(definition), "merges": _joined(merges)}
    if _of_type(definition.get("pre_tokenizer"), "ByteLevel").get("add_prefix_space"):
        raise ValueError("llama.cpp can't put a space before a text for BPE over bytes")
    return _tokens(tokenizer, {}), metadata


def _of_unigram(tokenizer: HuggingFaceTokenizer) -> tuple[list[GgufToken], dict[str, object]]:
    """Return what llama.cpp needs of a unigram model in a tokenizer.json, as reading a GGUF file makes it."""
    model, steps = tokenizer.definition["model"], _parts(tokenizer.definition.get("normalizer"))
    rules = next((step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled"), "")
    metadata: dict[str, Any] = {
        "add_space_prefix": any(step["type"] == "Prepend" for step in steps),
        "remove_extra_whitespaces": any(step.get("pattern") == {"Regex": " {2,}"} for step in steps),
    }
    same = sentencepiece_unigram(
        model["vocab"],
        unknown=model["unk_id"],
        charsmap=base64.b64decode(rules),
        squeeze=metadata["remove_extra_whitespaces"],
        prefix_space=metadata["add_space_prefix"],
        has_bytes=bool(model.get("byte_fallback")),
    )
    if any(tokenizer.definition.get(name) != same[name] for name in ("normalizer", "pre_tokenizer")):
        raise ValueError("llama.cpp can't normalize text as this tokenizer.json does")
    if rules:
        metadata["precompiled_charsmap"] = base64.b64decode(rules)
    return _tokens(tokenizer, dict(model["vocab"])), {"model": "t5", "pre": "default", **metadata}


def _with_byte_fallback(
    tokenizer: HuggingFaceTokenizer, merges: Sequence[tuple[str, ...]]
) -> tuple[list[GgufToken], dict[str, object]]:
    """Return what llama.cpp needs of a SentencePiece BPE in a tokenizer.json, such as Llama 2's."""
    definition = tokenizer.definition
    normalizers, pre_tokenizer = _parts(definition.get("normalizer")), definition.get("pre_tokenizer")
    known = [each for each in normalizers if each["type"] in ("Prepend", "Replace")]
    if known != normalizers or _parts(pre_tokenizer) != _parts(_of_type(pre_tokenizer, "Metaspace") or None):
        raise ValueError("llama.cpp can't normalize text as this tokenizer.json does")
    scheme = _of_type(pre_tokenizer, "Metaspace").get("prepend_scheme", "never")
    has_prefix = scheme != "never" or any(each["type"] == "Prepend" for each in normalizers)
    # Pieces that come from an earlier merge have a higher score.
    scores: dict[str, float] = {}
    for rank, pair in enumerate(merges):
        scores.setdefault("".join(pair), -float(rank))
    return _tokens(tokenizer, scores), {"model": "llama", "pre": "default", "add_space_prefix": has_prefix}


def _tokens(tokenizer: HuggingFaceTokenizer, scores: Mapping[str, float]) -> list[GgufToken]:
    added = {token["id"]: token for token in tokenizer.definition["added_tokens"]}
    has_bytes = bool(tokenizer.definition["model"].get("byte_fallback"))
    has_unknown = has_bytes or tokenizer.definition["model"]["type"] == "Unigram"

    def kind(token_id: int, piece: str) -> int:
        if token_id == tokenizer.special.unk and has_unknown:
            return TokenKind.UNKNOWN
        if tokenizer.is_sentinel(token_id) or is_markup(piece) or added.get(token_id, {}).get("special"):
            return TokenKind.CONTROL
        if token_id in added:
            return TokenKind.USER_DEFINED
        is_byte = has_bytes and len(piece) == len("<0x00>") and piece.startswith("<0x")
        return TokenKind.BYTE if is_byte else TokenKind.NORMAL

    pieces = [tokenizer.piece(token_id) for token_id in range(tokenizer.vocab_size)]
    return [
        GgufToken(piece, scores.get(piece, 0.0), kind(token_id, piece))
        for token_id, piece in enumerate(pieces)
    ]


def _pattern_of(definition: Definition) -> str:
    """Return llama.cpp's name of the way in which a byte-level BPE cuts text into words.

    Raises:
      ValueError: The tokenizer cuts text in a way that is not known here.
    """
    name = name_of_splits(_parts(definition.get("pre_tokenizer")))
    if name is not None:
        return name
    raise ValueError("llama.cpp's name of the pattern that cuts text into words is not known here")


def _parts(step: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Return the steps of a ``Sequence``, or the only one."""
    if step is None:
        return []
    return list(step.get("pretokenizers") or step.get("normalizers") or [step])


def _of_type(step: Mapping[str, object] | None, name: str) -> Mapping[str, object]:
    return next((part for part in _parts(step) if part["type"] == name), {})


def _joined(merges: Sequence[tuple[str, ...]]) -> list[str]:
    return [" ".join(pair) for pair in merges]
