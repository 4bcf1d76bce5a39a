"""The library ``tokenizers`` gives our ids from the ``tokenizer.json`` of an export."""

import json

import pytest
from tokenizers import Tokenizer as Engine

from t5x_like.cli.main import main
from t5x_like.text.heads.input_format import input_format_of
from t5x_like.text.vocabularies.definitions import template_of
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.tokenizer_definition import definition_of
from tests.references import FIXTURES, ROOT

TEXTS = [
    *json.loads((FIXTURES / "gguf/ids.json").read_text(encoding="utf-8"))["texts"],
    *("", "   ", "two  spaces   here ", "naïve café — “quotes” …", "ﬁne ½", "tab\tand\nline", "日本語 😀"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned")
    learn = ["vocabulary", "learn", "--input", str(ROOT / "data/king_james/validation.txt"), "--size", "400"]
    assert main([*learn, "--kind", "bpe", "--output", str(folder / "bpe.model")]) == 0
    assert main([*learn, "--kind", "bytebpe", "--output", str(folder / "bytebpe")]) == 0
    assert main([*learn, "--kind", "wordpiece", "--output", str(folder / "vocab.txt")]) == 0
    return folder


@pytest.mark.parametrize("kind", ["unigram", "bytes", "bpe.model", "bytebpe", "vocab.txt"])
def test_an_exported_definition_gives_our_ids_with_those_of_a_head(folder, kind):
    names = {"unigram": str(ROOT / "data/vocabulary/spiece.model"), "bytes": "bytes"}
    tokenizer = open_tokenizer(names.get(kind, str(folder / kind)), 100)
    joined = input_format_of(tokenizer, 10_000)
    between = [(number, 0) for number in joined.between]
    processor = template_of(tokenizer.piece, start=joined.start, between=between, end=joined.end)
    engine = Engine.from_str(json.dumps({**definition_of(tokenizer), "post_processor": processor}))
    texts = [text for text in TEXTS if "<" not in text]  # a text can't spell our special ids
    actual = [joined.join([ids]).tokens.tolist() for ids in tokenizer.encode_all(texts)]
    assert [each.ids for each in engine.encode_batch(texts)] == actual
    pair = joined.join([tokenizer.encode(text) for text in ("a text", "another")]).tokens.tolist()
    assert engine.encode("a text", "another").ids == pair
    assert engine.token_to_id("<extra_id_0>") == tokenizer.vocab_size - 1


def test_a_kind_that_the_library_lacks_is_refused(tmp_path):
    file = tmp_path / "characters.json"
    learn = ["vocabulary", "learn", "--input", str(ROOT / "data/king_james/validation.txt"), "--size", "60"]
    assert main([*learn, "--kind", "characters", "--output", str(file)]) == 0
    with pytest.raises(ValueError, match="has no tokenizer of the kind characters"):
        definition_of(open_tokenizer(str(file), 0))
