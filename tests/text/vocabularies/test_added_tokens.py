"""Tokens that were added to a slow tokenizer; right ids are those of transformers 5.24 for the same files."""

import json
import shutil

import pytest

from t5x_like.text.vocabularies.hugging_face_tokenizer import CHARACTER_OF
from t5x_like.text.vocabularies.opening import open_tokenizer

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "b",
    "<",
    "x",
    ">",
    "s",
    "##s",
    "##9",
    "covid",
    "##1",
]
COVID, TAG = len(PIECES), len(PIECES) + 1
# transformers' ids of each text
WORD_PIECES = {
    "covid19 a": [COVID, 5],
    "a COVID19": [5, COVID],
    "covid19s": [COVID, 10],
    "a<x>b <x> ": [5, TAG, 6, TAG],
    "covid1": [13, 14],
}


def word_pieces(folder, **configuration):
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    configuration = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **configuration}
    (folder / "tokenizer_config.json").write_text(json.dumps(configuration))
    return folder


def added(content, **flags):
    return {
        "content": content,
        "lstrip": False,
        "rstrip": False,
        "single_word": False,
        "normalized": True,
    } | flags


@pytest.mark.parametrize("is_old", [True, False])
def test_added_words_are_found_in_text(tmp_path, is_old):
    if is_old:
        folder = word_pieces(tmp_path)
        (folder / "added_tokens.json").write_text(json.dumps({"<x>": TAG, "covid19": COVID}))
    else:
        tokens = {"0": added("[PAD]", special=True), str(COVID): added("covid19"), str(TAG): added("<x>")}
        folder = word_pieces(tmp_path, added_tokens_decoder=tokens)
    tokenizer = open_tokenizer(folder, 0)
    assert {text: tokenizer.encode(text) for text in WORD_PIECES} == WORD_PIECES
    assert tokenizer.vocab_size == len(PIECES) + 2
    assert tokenizer.decode([5, COVID, 6]) == "a covid19 b"
    assert tokenizer.special.pad == 0


def test_an_added_special_token_has_an_id_that_text_does_not_reach(tmp_path):
    folder = word_pieces(tmp_path, additional_special_tokens=["<x>"])
    (folder / "added_tokens.json").write_text(json.dumps({"<x>": COVID}))
    tokenizer = open_tokenizer(folder, 0)
    assert tokenizer.encode("<x>") == [7, 8, 9]
    assert tokenizer.piece(COVID) == "<x>"


def test_a_special_token_between_letters_keeps_its_id(tmp_path):
    """Text must be a word of its own to be such a token; an id is one wherever it is."""
    tokens = {str(COVID): added("<x>", special=True, single_word=True, normalized=False)}
    tokenizer = open_tokenizer(word_pieces(tmp_path, added_tokens_decoder=tokens), 0)
    assert tokenizer.encode_parts(["a", COVID, "b"]) == [5, COVID, 6]
    assert tokenizer.encode_parts([COVID, "a"]) == [COVID, 5]
    assert tokenizer.encode("<x>") == [7, 8, 9]


def test_words_added_to_byte_pairs_are_found_in_text(tmp_path):
    vocabulary = {CHARACTER_OF[byte]: byte for byte in range(256)} | {
        "<|endoftext|>": 256,
        "th": 257,
        "the": 258,
    }
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e\n")
    (tmp_path / "added_tokens.json").write_text(json.dumps({"covid19": 259, "<x>": 260}))
    tokenizer = open_tokenizer(tmp_path, 0)
    assert tokenizer.encode("the covid19s<x>") == [258, 32, 259, 115, 260]
    assert tokenizer.decode([258, 32, 259, 115, 260]) == "the covid19s<x>"


def test_ids_with_a_gap_are_refused(tmp_path):
    folder = word_pieces(tmp_path)
    (folder / "added_tokens.json").write_text(json.dumps({"covid19": COVID + 5}))
    with pytest.raises(ValueError, match=f"'covid19' has the id {COVID + 5}, where .* gives it {COVID}"):
        open_tokenizer(folder, 0)


def test_text_added_to_a_sentencepiece_model_is_refused_or_read_from_tokenizer_json(every_kind, tmp_path):
    shutil.copy(every_kind["t5 pieces"], tmp_path / "spiece.model")
    size = open_tokenizer(tmp_path, 100).vocab_size
    tokens = {str(size): added("{"), str(size + 1): added("<sep>", special=True)}
    configuration = {"tokenizer_class": "T5Tokenizer", "added_tokens_decoder": tokens}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(configuration))
    with pytest.raises(
        ValueError, match=r"to which 1 tokens were added \('\{'\); these are read from a tokenizer.json"
    ):
        open_tokenizer(tmp_path)
    definition = {
        "added_tokens": [{"id": 3, **added("{"), "special": False}],
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1, "b": 2}, "unk_token": "<unk>"},
        "pre_tokenizer": {"type": "Whitespace"},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    assert open_tokenizer(tmp_path, 0).encode("a{b") == [1, 3, 2]
    del tokens[str(size)]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(configuration))
    assert open_tokenizer(tmp_path, 100).kind == "sentencepiece"
