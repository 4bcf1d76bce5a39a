"""Runs of tokens that occur twice: the first stays, whatever the whitespace, and passages go as a whole."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.references.corpora import texts
from t5x_like.corpora.duplicates.duplicate_substrings import DuplicateSubstrings
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped

RULE = DuplicateSubstrings(num_tokens=4, min_characters=1)


def kept(*pages: str, rule: DuplicateSubstrings = RULE) -> dict[str, str]:
    return texts(rule, [Page(str(index), text) for index, text in enumerate(pages)])


def test_a_repeated_passage_goes_from_all_documents_but_the_first():
    pages = ("Now a b c d e, end.", "Other: a b c d e, but (f).", "x a b\nc  d y")
    assert kept(*pages) == {"0": pages[0], "1": "Other:  but (f).", "2": "x  y"}


def test_shorter_runs_stay_and_case_matters():
    pages = ("a b c x", "y a b c", "A B C x")
    assert dict(enumerate(pages)) == {int(url): text for url, text in kept(*pages).items()}


def test_a_passage_that_one_document_repeats_stays_once():
    assert kept("a b c d - a b c d.") == {"0": "a b c d - ."}


def test_a_unit_that_repeats_without_a_gap_stays_once():
    assert kept("-----", "a b a b a b c") == {"0": "-", "1": "a b  c"}


def test_words_around_a_removed_passage_stay_apart():
    assert kept("-a b-", "x-a b-y") == {"0": "-a b-", "1": "x y"}


def test_half_of_a_surrogate_pair_is_a_token():
    assert kept("\ud800 b c d", "\ud800 b c d e") == {"0": "\ud800 b c d", "1": "e"}


def test_documents_of_which_little_remains_are_dropped():
    rule = DuplicateSubstrings(num_tokens=4, min_characters=3)
    assert kept("a b c d", "a b c d", "a b c d ef", "a b c d efg", rule=rule) == {"0": "a b c d", "3": "efg"}
    page = Page("", "a b c d")
    assert rule.remove(page, np.array([0]), Counter()) == Dropped("filtered:empty")


def plainly(pages: list[str], size: int) -> list[list[str]]:
    """Return the letters of each page that are in no run that came before."""
    seen: set[str] = set()
    kept_letters = []
    for page in pages:
        letters = page.replace(" ", "")
        gone: set[int] = set()
        for start in range(len(letters) - size + 1):
            run = letters[start : start + size]
            if run in seen:
                gone.update(range(start, start + size))
            seen.add(run)
        kept_letters.append([letter for index, letter in enumerate(letters) if index not in gone])
    return kept_letters


@given(st.lists(st.text(st.sampled_from("abc."), min_size=1, max_size=9), min_size=1, max_size=5))
def test_what_stays_is_what_plain_counting_leaves(pages):
    spaced = [" ".join(page) for page in pages]
    rows = kept(*spaced, rule=DuplicateSubstrings(num_tokens=2, min_characters=1))
    assert [rows.get(str(index), "").split() for index in range(len(pages))] == plainly(spaced, 2)


def test_the_removed_passages_are_reported_whole():
    page = Page("", "a b c d e, f")
    assert RULE.texts(page, np.array([0, 1])) == ["a b c d e"]


@pytest.mark.parametrize("name", ["num_tokens", "min_characters"])
def test_fields_count_something(name):
    with pytest.raises(ValueError, match=rf"DuplicateSubstrings.{name} is 0; give 1 or more"):
        DuplicateSubstrings(**{name: 0})
