"""Small whole vocabularies of every format for the fuzzer, and the reader that opens them."""

import base64
import json
from pathlib import Path
from typing import Any

from t5x_like.text.vocabularies import definitions
from t5x_like.text.vocabularies.hugging_face_tokenizer import CHARACTER_OF
from t5x_like.text.vocabularies.opening import _open_files, open_tokenizer
from t5x_like.text.vocabularies.read_vocabulary import OUR_CHARACTERS, OUR_WORDS

_TEXT = "The <extra_id_0> of 12 days’ wonder: don't\n"


def word_pieces() -> bytes:
    """Return a ``vocab.txt`` of BERT's kind."""
    return "\n".join(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s", "won", "##der", "1"]
    ).encode()


def tokenizer_definitions() -> dict[str, dict[str, Any]]:
    """Return the definition of a tokenizer of each kind."""
    letters = {CHARACTER_OF[byte]: byte for byte in range(256)}
    pieces = word_pieces().decode().split("\n")
    byte_level = definitions.byte_level(
        letters | {"th": 256, "the": 257}, [("t", "h"), ("th", "e")], prefix_space=False
    )
    sentinel = {"id": 258, "content": "<extra_id_0>", "single_word": False, "lstrip": False, "rstrip": False}
    unigram = {
        "type": "Unigram",
        "unk_id": 0,
        "vocab": [["<unk>", 0.0], ["▁the", -1.0], ["▁", -2.0], *([letter, -3.0] for letter in "the of12")],
    }
    return {
        "byte_level": {**byte_level, "added_tokens": [{**sentinel, "normalized": False, "special": True}]},
        "word_piece": definitions.word_piece(pieces, configuration={}, lower_case=None),
        "words": definitions.words(["<pad>", "</s>", "<unk>", "The"], lower_case=False, punctuation_apart=True),
        "unigram": {
            "version": "1.0",
            "added_tokens": [],
            "normalizer": {"type": "NFKC"},
            "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            "model": unigram,
        },
    }  # fmt: skip


def tokenizers() -> list[bytes]:
    """Return a ``tokenizer.json`` of each kind."""
    return [json.dumps(each).encode() for each in tokenizer_definitions().values()]


def own_vocabularies() -> list[bytes]:
    """Return our vocabularies of words and of characters."""
    pieces = ["<pad>", "</s>", "<unk>", "The", "of", "12"]
    words = {"format": OUR_WORDS, "lower_case": False, "punctuation_apart": True, "pieces": pieces}
    return [
        json.dumps(each).encode()
        for each in (words, {"format": OUR_CHARACTERS, "characters": ["T", "h", "e"]})
    ]


def merges() -> tuple[bytes, dict[str, bytes]]:
    """Return a ``merges.txt``, and the ``vocab.json`` that belongs to it."""
    numbers = {CHARACTER_OF[byte]: byte for byte in range(256)} | {"th": 256, "the": 257}
    return b"#version: 0.2\nt h\nth e\n", {"vocab.json": json.dumps(numbers).encode()}


def ranks() -> bytes:
    """Return a file of tiktoken's kind."""
    pieces = [bytes([byte]) for byte in range(256)] + [b"th", b"the"]
    return b"".join(base64.b64encode(piece) + b" %d\n" % rank for rank, piece in enumerate(pieces))


def unigram_model() -> bytes:
    """Return a SentencePiece model."""
    from sentencepiece import sentencepiece_model_pb2  # brings protobuf

    model: Any = sentencepiece_model_pb2  # whose classes are made when it is imported
    proto = model.ModelProto()
    proto.trainer_spec.model_type = model.TrainerSpec.UNIGRAM
    for piece, kind in (
        ("<pad>", 3),
        ("</s>", 3),
        ("<unk>", 2),
        ("\u2581the", 1),
        ("\u2581", 1),
        ("T", 1),
        ("h", 1),
    ):
        proto.pieces.add(piece=piece, score=-1.0, type=kind)
    return proto.SerializeToString()


def tokenizer_settings() -> list[tuple[bytes, dict[str, bytes]]]:
    """Return a ``tokenizer_config.json`` next to each of two vocabularies."""
    settings = {
        "unk_token": {"content": "[UNK]", "lstrip": False},
        "pad_token": "[PAD]",
        "do_lower_case": True,
        "extra_ids": 3,
        "added_tokens_decoder": {"0": {"content": "[PAD]", "special": True}},
        "model_max_length": 512,
        "tokenizer_class": "BertTokenizer",
    }
    word_piece = {"vocab.txt": word_pieces()}
    whole = {"tokenizer.json": json.dumps(tokenizer_definitions()["word_piece"]).encode()}
    return [(json.dumps(settings).encode(), others) for others in (word_piece, whole)]


def read_tokenizer(home: Path) -> None:
    """Open the vocabulary in a directory, encode, and decode."""
    _open_files.cache_clear()  # it takes files of one size and second for the same
    tokenizer = open_tokenizer(home)
    ids = tokenizer.encode(_TEXT)
    tokenizer.decode([*ids, 0, tokenizer.vocab_size - 1])
    tokenizer.starts_word()
