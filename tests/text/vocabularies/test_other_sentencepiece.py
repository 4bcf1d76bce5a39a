"""SentencePiece models whose special ids are not T5's."""

import io
import json

import pytest
import sentencepiece

from t5x_like.text.vocabularies.opening import open_tokenizer

ALBERT = {
    "pad_id": 0, "unk_id": 1, "eos_id": -1, "bos_id": -1,
    "control_symbols": ["[CLS]", "[SEP]", "[MASK]"], "user_defined_symbols": ["(", ")"],
}  # fmt: skip
XLNET = {
    "unk_id": 0, "bos_id": 1, "eos_id": 2,
    "control_symbols": ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"], "user_defined_symbols": ["<eop>"],
}  # fmt: skip
LLAMA = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1, "byte_fallback": True, "model_type": "bpe"}
GEMMA = {
    "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "byte_fallback": True, "model_type": "bpe",
    "user_defined_symbols": ["<mask>", "<start_of_turn>", "<h1>"], "remove_extra_whitespaces": False,
    "add_dummy_prefix": False,
}  # fmt: skip
FAMILIES = {"albert": ALBERT, "xlnet": XLNET, "llama": LLAMA, "gemma": GEMMA}
MARKUP = "[CLS] [SEP] [MASK] <cls> <sep> <mask> <eod> <eop> <s> </s> <unk> <pad> <start_of_turn>"


@pytest.fixture(scope="module")
def models(tmp_path_factory, corpus):
    home = tmp_path_factory.mktemp("models")
    for name, options in FAMILIES.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(corpus.read_text().split("\n")),
            model_writer=model, vocab_size=400, minloglevel=2, hard_vocab_limit=False,
            character_coverage=1.0, **options,
        )  # fmt: skip
        (home / name).mkdir()
        (home / name / "spiece.model").write_bytes(model.getvalue())
    return home


def roles(tokenizer):
    return {name: token_id for name, token_id in tokenizer.special.by_role.items() if token_id is not None}


def test_each_family_has_its_own_special_ids(models):
    results = {name: roles(open_tokenizer(models / name, 0)) for name in FAMILIES}
    assert results["albert"] == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4, "eos": 3}
    assert results["xlnet"] == {"unk": 0, "bos": 1, "eos": 2, "cls": 3, "sep": 4, "pad": 5, "mask": 6}
    assert results["llama"] == {"unk": 0, "bos": 1, "eos": 2}
    assert results["gemma"] == {"pad": 0, "eos": 1, "bos": 2, "unk": 3, "mask": 4, "cls": 2, "sep": 1}


@pytest.mark.parametrize("name", FAMILIES)
def test_markup_in_text_stays_text(models, name):
    tokenizer = open_tokenizer(models / name, 5)
    pieces = {tokenizer.piece(token_id) for token_id in tokenizer.encode(MARKUP)} - {"<unk>"}
    assert not pieces.intersection(MARKUP.split())
    if name in ("llama", "gemma"):
        assert tokenizer.decode(tokenizer.encode(MARKUP)) == MARKUP


def test_pieces_that_are_meant_for_text_are_found_in_it(models):
    tokenizer = open_tokenizer(models / "gemma", 0)
    assert "<h1>" in [tokenizer.piece(token_id) for token_id in tokenizer.encode("<h1>the")]


@pytest.mark.parametrize(
    ("configuration", "read_as"),
    [
        ({"tokenizer_class": "AlbertTokenizer"}, "they said 'naive' : \"up\""),
        ({"tokenizer_class": "AlbertTokenizer", "do_lower_case": False}, "They said 'naive' : \"up\""),
        ({"tokenizer_class": "XLNetTokenizerFast", "keep_accents": True}, "They said 'naïve' : \"up\""),
        ({"tokenizer_class": "T5Tokenizer"}, "They  said 'naïve' : ``up''"),
    ],
)
def test_alberts_and_xlnets_text_is_prepared_as_they_do(models, tmp_path, configuration, read_as):
    folder = tmp_path / "albert"
    folder.mkdir()
    (folder / "spiece.model").write_bytes((models / "albert" / "spiece.model").read_bytes())
    plain = open_tokenizer(folder, 0).encode(read_as)
    (folder / "tokenizer_config.json").write_text(json.dumps(configuration))
    assert open_tokenizer(folder, 0).encode("They  said 'naïve' : ``up''") == plain
