import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.references.corpora import deduplicate, duplicate_lines, keys_of_page, texts
from benchmarks.references.reference import compare_all
from t5x_like.corpora.duplicates.duplicate_lines import DuplicateLines
from t5x_like.corpora.duplicates.duplicate_rule import all_but_first
from t5x_like.corpora.duplicates.duplicate_spans import DuplicateSpans
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped

LINES = [
    "Ann sang.",
    "ann sang. ",
    "Bob ran home.",
    "Did Cy go?",
    "Dee fell",
    "",
    "A. B. C.",
    "Eve is here. So is Di.",
]
PAGES = st.lists(st.lists(st.sampled_from(LINES), max_size=6), min_size=1, max_size=6).map(
    lambda all_lines: [
        Page(url=f"https://example.org/{index}", text="\n".join(lines))
        for index, lines in enumerate(all_lines)
    ]
)


def test_lines_stay_where_the_reference_keeps_them(golden):
    assert compare_all(duplicate_lines(golden / "c4" / "dedupe_lines.json")) > 1


@settings(deadline=None)
@given(pages=PAGES, order=st.randoms(use_true_random=False))
def test_the_order_of_pages_is_irrelevant(pages, order):
    mixed = list(pages)
    order.shuffle(mixed)
    for min_sentences in (0, 2):
        rule = DuplicateLines(min_sentences=min_sentences)
        assert texts(rule, mixed) == texts(rule, pages)


@settings(deadline=None)
@given(pages=PAGES)
def test_each_line_stays_exactly_once_and_in_order(pages):
    kept = texts(DuplicateLines(min_sentences=0), pages)
    before = {key for page in pages for line in page.text.split("\n") if (key := line.strip().lower())}
    after = [key for text in kept.values() for line in text.split("\n") if (key := line.strip().lower())]
    assert sorted(after) == sorted(before)
    for page in pages:
        remaining = iter(page.text.split("\n"))
        assert all(line in remaining for line in kept.get(page.url, "").split("\n") if line)


@settings(deadline=None)
@given(pages=PAGES)
def test_a_second_pass_removes_nothing(pages):
    rule = DuplicateLines(min_sentences=0)
    once = texts(rule, pages)
    remaining = [Page(url=url, text=text) for url, text in once.items()]
    if remaining:
        assert texts(rule, remaining) == once


def test_a_line_stays_on_the_page_with_the_smallest_digest_of_the_crawled_url():
    first = Page(url="https://www.example.org/wet/6?utm_source=x", text="The same line.")
    second = Page(url="https://www.example.org/wet/1?utm_source=x", text="The same line.")
    assert list(texts(DuplicateLines(min_sentences=0), [first, second])) == [second.url]


def test_sentences_are_counted_over_the_whole_remaining_text():
    page = Page(url="https://example.org/", text='It was\nShe said "go"\nWe all went home.')
    assert deduplicate(DuplicateLines(min_sentences=3), [page])[page.url] == Dropped(
        "filtered:too_few_sentences"
    )


@pytest.mark.parametrize("text", ["a\udc80b", "\ud800", "\x00"])
def test_any_text_that_json_can_hold_has_keys(text):
    assert texts(DuplicateLines(min_sentences=0), [Page(url=text, text=text)]) == {text: text}


@pytest.mark.parametrize("rule", [DuplicateLines(), DuplicateSpans(num_sentences=1)])
@settings(deadline=None)
@given(pages=PAGES, cut=st.integers(0, 6))
def test_matching_in_parts_equals_matching_all_at_once(rule, pages, cut):
    keys = np.concatenate([keys_of_page(rule, page, index) for index, page in enumerate(pages)])
    here = keys["page"] < cut
    halves = [keys[here], keys[~here]]
    gone = [all_but_first(half) for half in halves]
    rest = np.concatenate([half[~np.isin(half, lost)] for half, lost in zip(halves, gone, strict=True)])
    in_parts = np.concatenate([*gone, all_but_first(rest)])
    assert np.array_equal(np.sort(in_parts), np.sort(all_but_first(keys)))
