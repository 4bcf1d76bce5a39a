import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.references.corpora import deduplicate, texts
from t5x_like.corpora.duplicates.duplicate_rule import PagePosition
from t5x_like.corpora.duplicates.min_hash import shingles, signature
from t5x_like.corpora.duplicates.near_duplicates import NearDuplicates
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.url_lists import url_digest


def _page(url, words):
    return Page(url=url, text=" ".join(words))


def _words(name, number):
    return [f"{name}w{count}" for count in range(number)]


def _pairs(similarity, number, num_ngrams=240):
    """Pairs of pages, one after the other, that share about this part of all their 4-grams; and the exact part."""
    common = round(2 * num_ngrams * similarity / (1 + similarity))
    pages = []
    for name in range(number):
        shared, rest = _words(f"both{name}", common + 3), num_ngrams - common
        pages.append(_page(f"{name}/a", shared + _words(f"a{name}", rest)))
        pages.append(_page(f"{name}/b", shared + _words(f"b{name}", rest)))
    return pages, common / (2 * num_ngrams - common)


@pytest.mark.parametrize("similarity", [0.4, 0.6, 0.7, 0.75, 0.8, 0.9])
def test_pairs_are_found_with_the_theoretical_probability(similarity):
    pages, exact = _pairs(similarity, 250)
    rule = NearDuplicates(ngram=4)
    kept = texts(rule, pages)
    result = len(pages) - len(kept)
    assert all(one.url in kept or two.url in kept for one, two in zip(pages[::2], pages[1::2], strict=True))
    expected = rule.match_probability(exact)
    assert abs(result / 250 - expected) < 4 * np.sqrt(expected * (1 - expected) / 250) + 1e-9


def test_signatures_estimate_the_jaccard_similarity():
    pages, exact = _pairs(0.5, 30)
    pairs = [
        (shingles(one.text, 4), shingles(two.text, 4))
        for one, two in zip(pages[::2], pages[1::2], strict=True)
    ]
    exact = np.mean([len(np.intersect1d(one, two)) / len(np.union1d(one, two)) for one, two in pairs])
    agree = np.mean([signature(one, 512, 1) == signature(two, 512, 1) for one, two in pairs])
    assert abs(agree - exact) < 4 * np.sqrt(exact * (1 - exact) / (30 * 512))


def test_one_page_of_a_chain_of_near_duplicates_stays():
    """Groups hang together by pairs: the ends of a chain need nothing in common."""
    words = _words("w", 400)
    chain = [_page(f"example.org/{step}", words[4 * step : 4 * step + 200]) for step in range(40)]
    other = _page("example.org/other", _words("v", 200))
    kept = texts(NearDuplicates(), [*chain, other])
    lowest = min((page.url for page in chain), key=url_digest)
    assert set(kept) == {lowest, other.url}


ORDERLY = st.lists(st.lists(st.sampled_from("abcde"), max_size=12), min_size=1, max_size=8)


@settings(deadline=None)
@given(pages=ORDERLY, order=st.randoms(use_true_random=False))
def test_the_order_of_pages_is_irrelevant_and_nothing_is_left_to_remove(pages, order):
    rule = NearDuplicates(ngram=2)
    pages = [_page(f"example.org/{index}", words) for index, words in enumerate(pages)]
    mixed = list(pages)
    order.shuffle(mixed)
    kept = texts(rule, mixed)
    assert kept == texts(rule, pages)
    assert kept.items() <= {page.url: page.text for page in pages}.items()
    remaining = [page for page in pages if page.url in kept]
    assert texts(rule, remaining) == kept


def test_pages_without_words_are_never_duplicates_and_equal_short_ones_are():
    pages = [
        Page(url="1", text=""),
        Page(url="2", text="…"),
        Page(url="3", text="Page not found"),
        Page(url="4", text="page NOT found!"),
        Page(url="5", text="page found"),
    ]
    counts = Counter()
    results = deduplicate(NearDuplicates(), pages, counts)
    assert {url for url, result in results.items() if isinstance(result, Dropped)} == {"3"}
    assert counts == {"passed": 4, "filtered:near_duplicate": 1}


def test_keys_are_the_same_on_every_machine_and_in_every_version():
    """They decide what stays of a corpus: where this changes, NearDuplicates.VERSION rises."""
    page = Page(
        url="https://example.org/",
        text="Die Straße, the quick brown fox; Ünïcode 漢字 and 42 more words. " * 90,
    )
    keys = NearDuplicates().keys(page, PagePosition(bytes(range(16)), 0, 0))
    assert hashlib.md5(keys.tobytes()).hexdigest() == "2939e10caa0f3ad39c82f962374f9d76"


@pytest.mark.parametrize("field", ["ngram", "bands", "rows"])
def test_settings_below_one_are_refused(field):
    with pytest.raises(ValueError, match=f"NearDuplicates.{field} is 0; it counts something: give 1 or more"):
        NearDuplicates(**{field: 0})
