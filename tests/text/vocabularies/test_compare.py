import pytest

from t5x_like.text.vocabularies.compare import measure
from t5x_like.text.vocabularies.opening import open_tokenizer


def test_counts_are_those_of_the_text(tmp_path):
    (tmp_path / "a.txt").write_text("ab  cd é\n\nef\n", encoding="utf-8")
    (measures,) = measure([open_tokenizer("bytes", 100)], str(tmp_path / "a.txt"))
    assert (measures.num_words, measures.num_bytes, measures.num_tokens, measures.num_unknown) == (
        4,
        11,
        11,
        0,
    )
    assert measures.fertility == 11 / 4
    assert measures.bytes_per_token == 1.0
    assert measures.unknown_rate == 0.0
    assert measures.as_row()["fertility"] == 11 / 4


def test_unknown_tokens_are_counted(every_kind, tmp_path):
    (tmp_path / "a.txt").write_text("the zebra the yak\n")
    (measures,) = measure([open_tokenizer(every_kind["words"], 0)], str(tmp_path / "a.txt"))
    assert (measures.num_tokens, measures.num_unknown, measures.unknown_rate) == (4, 2, 0.5)


def test_every_kind_is_measured_on_the_same_text(every_kind, corpus):
    tokenizers = [open_tokenizer(path, 0) for path in every_kind.values()]
    result = measure(tokenizers, str(corpus))
    assert len({(each.num_words, each.num_bytes) for each in result}) == 1
    by_kind = dict(zip(every_kind, result, strict=True))
    assert by_kind["wordpiece"].fertility < by_kind["characters"].fertility < by_kind["bytes"].fertility
    assert by_kind["bytebpe"].num_unknown == 0


def test_a_text_without_words_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"a\.txt holds no text"):
        measure([open_tokenizer("bytes", 0)], str(tmp_path / "a.txt"))
