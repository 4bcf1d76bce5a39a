"""Equality of sentences after normalization."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.corpora.duplicates.duplicate_spans import has_words, normalize_sentence


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The old  harbour.", "the old harbour"),
        ("It cost 1,234.50 or 7 (2.5 a piece)!", "it cost 0 0 or 0 0 a piece"),
        ("“Naïve” — café…", "naive cafe"),
        ("\u0661\u0662\u066b\u0665 \u4eba\uff0c\uff11", "0 \u4eba 0"),
        ("snake_case\ttab\x00nul\x7f", "snake case tab nul"),
        ("?! ...", ""),
    ],
)
def test_only_lower_case_words_without_accents_count_and_numbers_are_equal(sentence, expected):
    assert normalize_sentence(sentence) == expected


@given(st.text(alphabet=string.printable + "\x00\x1f\x7f", max_size=40))
def test_the_fast_path_for_ascii_equals_the_general_case(text):
    assert f"{normalize_sentence(text)} \u4eba".strip() == normalize_sentence(f"{text} \u4eba")


@given(st.text(max_size=20))
def test_a_sentence_has_words_if_it_is_not_empty_when_normalized(text):
    assert has_words(text) == bool(normalize_sentence(text))
