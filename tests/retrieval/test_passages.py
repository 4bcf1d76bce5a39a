"""Passages are as long as they may be, overlap, and have every word."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.retrieval.passages import PassageLength, cut_passages, split_text
from t5x_like.retrieval.source_texts import SourceText
from t5x_like.text.vocabularies.opening import open_tokenizer

BYTES = open_tokenizer("bytes")


def test_passages_end_between_words_and_share_the_overlap():
    text = "aaa bbb ccc ddd eee fff"
    passages = split_text(text, BYTES, PassageLength(length=12, overlap=4))
    assert passages == ["aaa bbb ccc", "ccc ddd eee", "eee fff"]


def test_whole_texts_are_one_passage_each():
    texts = [SourceText("a", "a.txt", " one two "), SourceText("b", "b.txt", "three")]
    passages = list(cut_passages(texts, BYTES, PassageLength(length=0, overlap=0)))
    assert [(each.id, each.index, each.text) for each in passages] == [("a", 0, "one two"), ("b", 0, "three")]


def test_passages_name_their_file_and_their_place():
    texts = [SourceText("a", "folder/a.txt", "aaa bbb ccc ddd")]
    passages = list(cut_passages(texts, BYTES, PassageLength(length=8, overlap=0)))
    assert [tuple(each) for each in passages] == [
        ("a", "folder/a.txt", 0, "aaa bbb"),
        ("a", "folder/a.txt", 1, "ccc ddd"),
    ]


def test_a_writing_without_spaces_is_divided_too():
    passages = split_text("x" * 100, BYTES, PassageLength(length=20, overlap=0))
    assert passages == ["x" * 20] * 5
    assert split_text("word " + "y" * 9, BYTES, PassageLength(length=8, overlap=0)) == ["word yy", "yyyyyyy"]


@given(
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=30),
    length=st.integers(1, 40),
    overlap=st.integers(0, 39),
)
def test_every_word_is_in_a_passage_and_no_passage_is_inside_another(sizes, length, overlap):
    characters = iter(range(0x4E00, 0x9FFF))  # all different, three bytes each
    text = " ".join("".join(chr(next(characters)) for _ in range(size)) for size in sizes)
    lengths = PassageLength(length=length, overlap=min(overlap, length - 1))
    ends = [0]
    for passage in split_text(text, BYTES, lengths):
        start = text.index(passage)
        assert not text[ends[-1] : start].strip()
        ends.append(start + len(passage))
        assert len(BYTES.encode(passage)) <= max(length, 3)
    assert ends[-1] == len(text)
    assert all(first < second for first, second in pairwise(ends))


@pytest.mark.parametrize(("length", "overlap"), [(-1, 0), (8, 8), (8, -1)])
def test_lengths_that_make_no_passages_are_refused(length, overlap):
    with pytest.raises(ValueError, match="passage_"):
        PassageLength(length=length, overlap=overlap)
