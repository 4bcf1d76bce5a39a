"""Small vocabularies of every kind, made as users make them."""

import base64
import json
import random
from pathlib import Path

import pytest

from t5x_like.text.vocabularies.vocabulary_training import VocabularyTraining

SENTENCES = (
    "the king spoke to his people and they went up into the land of the river",
    "a light shone upon the city; so, she said: come! how many years (or days)",
    "where water ran, have you been here? naïve 中 文",
)
WORDS = " ".join(SENTENCES).split()


def write_text(path: Path, num_lines: int = 400) -> Path:
    chooser = random.Random(0)
    lines = (" ".join(chooser.choices(WORDS, k=10)).capitalize() for _ in range(num_lines))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    return write_text(tmp_path_factory.mktemp("corpus") / "text.txt")


def unigram_json(path: Path) -> Path:
    """Return a tokenizer.json like T5's, with special pieces among the others at maximum probability."""
    special = ["<pad>", "</s>", "<unk>", "<extra_id_1>", "<extra_id_0>"]
    letters = [["▁", -2.0], *([chr(code), -4.0] for code in range(33, 127))]
    vocabulary = [[piece, 0.0] for piece in special[:3]] + letters + [["▁the", -1.0], ["<mask>", 0.0]]
    vocabulary += [[piece, 0.0] for piece in special[3:]]
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    numbers = {piece: token_id for token_id, (piece, _) in enumerate(vocabulary)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    definition = {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": None,
        "added_tokens": [{"id": numbers[piece], "content": piece, **flags} for piece in special],
        "normalizer": None,
        "pre_tokenizer": space,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "</s>", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}},
        },
        "decoder": space,
        "model": {"type": "Unigram", "unk_id": 2, "vocab": vocabulary, "byte_fallback": False},
    }
    path.write_text(json.dumps(definition), encoding="utf-8")
    return path


def ranks_file(path: Path) -> Path:
    """Return a tiktoken file of all bytes and a few merges."""
    pieces = [bytes([byte]) for byte in range(256)] + [b"th", b"the", b" the", b"in", b"ing"]
    lines = (b"%b %d" % (base64.b64encode(piece), rank) for rank, piece in enumerate(pieces))
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.fixture(scope="session")
def every_kind(tmp_path_factory, corpus, pieces_path) -> dict[str, str]:
    """Return the path or name of a vocabulary of each kind."""
    home = tmp_path_factory.mktemp("vocabularies")
    trained = {
        "unigram": ("u.model", {"size": 90, "character_coverage": 1.0}),
        "bpe": ("b.model", {"size": 110, "character_coverage": 1.0, "byte_fallback": False}),
        "wordpiece": ("word_pieces", {"size": 120, "lower_case": True}),
        "bytebpe": ("byte_pairs", {"size": 300}),
        "words": ("words.json", {"size": 60, "min_count": 2}),
        "characters": ("characters.json", {"size": 60}),
    }
    paths = {"bytes": "bytes", "t5 pieces": str(pieces_path)}
    for kind, (name, options) in trained.items():
        VocabularyTraining(kind=kind, inputs=str(corpus), output=home / name, **options).run()
        paths[kind] = str(home / name)
    VocabularyTraining(
        kind="bpe", end_of_word=True, inputs=str(corpus), output=home / "sennrich.json", size=120
    ).run()
    (home / "ranks").mkdir()
    return paths | {
        "sennrich": str(home / "sennrich.json"),
        "unigram json": str(unigram_json(home / "tokenizer.json")),
        "tiktoken": str(ranks_file(home / "ranks" / "gpt2.tiktoken")),
    }


KINDS = ("bytes", "t5 pieces", "unigram", "bpe", "wordpiece", "bytebpe", "words", "characters", "sennrich",
         "unigram json", "tiktoken")  # fmt: skip


@pytest.fixture(params=KINDS)
def path_of_kind(request, every_kind) -> str:
    return every_kind[request.param]
