"""URLs, lengths, lines and paragraphs."""

import hashlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.corpora.building.recipe import CorpusRecipe
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules import c4_rules
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.sentences import count_sentences
from t5x_like.corpora.rules.size_rules import MaxLength, Paragraphs
from t5x_like.corpora.rules.url_lists import normalize_url, url_digest

C4 = CorpusRecipe(name="c4", steps=())


@pytest.mark.parametrize(
    ("url", "normalized"),
    [
        ("https://web.archive.org/web/2019/http://www.a.org/", "web.archive.org/web/2019/a.org"),
        ("http://a.org/?ref=x&id=3", "a.org"),
        ("http://a.org/?id=3&ref=x", "a.org/?id=3&ref=x"),
        ("http://a.org/?feedback", "a.org"),
        ("www.a.org", "www.a.org"),
        ("", ""),
    ],
)
def test_urls_of_one_page_are_normalized_alike(url: str, normalized: str):
    assert normalize_url(url) == normalized


@given(st.text())
def test_md5_decides_the_split_of_any_url(url: str):
    digest = hashlib.md5(url.encode("utf-8", "surrogatepass"))
    assert url_digest(url) == digest.digest()
    assert C4.is_held_out(url_digest(url)) == (int(digest.hexdigest(), 16) % 1000 == 0)


def test_about_one_url_in_a_thousand_is_held_out():
    assert 60 < sum(C4.is_held_out(url_digest(f"a.org/{n}")) for n in range(100_000)) < 140


def test_pages_with_too_many_characters_are_dropped():
    page = Page("", "é" * 10)
    assert MaxLength(chars=10).apply(page, Counter()) is page
    assert MaxLength(chars=9).apply(page, Counter()) == Dropped("filtered:too_long")
    with pytest.raises(ValueError, match=r"MaxLength.chars is 0; no page would be left"):
        MaxLength(chars=0)


def test_only_newlines_separate_paragraphs_and_the_third_longest_decides():
    rule = Paragraphs(min_lines=2, min_chars=3)
    kept = {
        "abc\nabc\nabc": True,
        "abc\nabc\nab": False,
        "abc\nabc": True,
        "abc\rabc\rabc": False,
        "abcd": False,
    }
    for text, is_kept in kept.items():
        assert isinstance(rule.apply(Page("", text), Counter()), Page) == is_kept, text
    assert rule.apply(Page("", ""), Counter()) == Dropped("filtered:too_few_paragraphs")
    with pytest.raises(ValueError, match=r"Paragraphs.min_chars is 0; it must be at least 1"):
        Paragraphs(min_chars=0)


@given(st.text(" a\u00a0\x1f\u200b", max_size=12), st.integers(0, 6))
def test_words_are_counted_no_further_than_needed(line: str, least: int):
    assert c4_rules.has_words(line, least) == (len(line.split()) >= least)


@given(st.text(" a\u3000", max_size=12), st.integers(0, 6))
def test_long_words_are_found_anywhere(line: str, most: int):
    assert c4_rules.has_longer_word(line, most) == any(len(word) > most for word in line.split())


@settings(deadline=None)  # the first call loads the abbreviations
@given(st.lists(st.sampled_from(["A b.", "A. B.", "A b. C d. E f.", "x"]), max_size=5), st.integers(0, 7))
def test_sentences_are_counted_only_as_far_as_needed(lines: list[str], least: int):
    assert c4_rules.has_sentences(lines, least) == (sum(map(count_sentences, lines)) >= least)
