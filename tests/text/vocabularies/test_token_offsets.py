import pytest

from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.sentencepiece_tokenizer import SentencePieceTokenizer
from t5x_like.text.vocabularies.sentencepiece_training import learn_sentencepiece
from t5x_like.text.vocabularies.token_offsets import encode_with_offsets

TEXT = "The 2 quick  foxes, naïve 漢字 😀!"
WORDPIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "quick",
    "fox",
    "##es",
    ",",
    "naive",
    "漢",
    "!",
    "2",
]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabularies")
    (folder / "vocab.txt").write_text("\n".join(WORDPIECES) + "\n")
    (folder / "a.txt").write_text(f"{TEXT} The fox is quick, and foxes are naïve.\n" * 50)
    learn_sentencepiece([str(folder / "a.txt")], folder / "a.model", size=38, character_coverage=1.0)
    return {
        "bytes": "bytes",
        "wordpiece": str(folder / "vocab.txt"),
        "sentencepiece": str(folder / "a.model"),
    }


@pytest.mark.parametrize("kind", ["bytes", "wordpiece", "sentencepiece"])
def test_ids_are_those_of_encode_and_places_never_fall(paths, kind):
    tokenizer = open_tokenizer(paths[kind], 10)
    ids, starts, ends = encode_with_offsets(tokenizer, TEXT)
    assert ids == tokenizer.encode(TEXT)
    assert len(ids) == len(starts) == len(ends)
    for places in (starts, ends):
        assert (places[1:] >= places[:-1]).all()
    assert (starts <= ends).all()
    assert ends[-1] == len(TEXT)


def test_pieces_lie_where_their_text_is(paths):
    tokenizer = open_tokenizer(paths["wordpiece"], 10)
    ids, starts, ends = encode_with_offsets(tokenizer, TEXT)
    results = {
        tokenizer.piece(token_id): TEXT[start:end]
        for token_id, start, end in zip(ids, starts, ends, strict=True)
    }
    assert results["the"] == "The"
    assert results["fox"] == "fox"
    assert results["##es"] == "es"
    assert results["naive"] == "naïve"


def test_vocabularies_that_normalize_text_are_refused(paths):
    with open(paths["sentencepiece"], "rb") as stream:
        tokenizer = SentencePieceTokenizer(
            "albert", stream.read(), num_sentinels=0, configuration={"tokenizer_class": "AlbertTokenizer"}
        )
    with pytest.raises(ValueError, match="'albert' changes text before splitting it"):
        encode_with_offsets(tokenizer, TEXT)
