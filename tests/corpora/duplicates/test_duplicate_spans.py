from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.references.corpora import deduplicate, duplicate_spans, texts
from benchmarks.references.reference import compare_all
from t5x_like.corpora.duplicates.duplicate_spans import DuplicateSpans
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped

SENTENCES = [
    "Ann sang.",
    "ANN sang!",
    "Bob ran home.",
    "Did Cy go?",
    "Dr. Dee fell.",
    "...",
    "It was 5 p.m. already.",
]
PAGES = st.lists(
    st.lists(st.tuples(st.sampled_from(SENTENCES), st.sampled_from([" ", "\n", "  "])), max_size=8),
    min_size=1,
    max_size=5,
).map(
    lambda documents: [
        Page(url=str(index), text="".join(sentence + space for sentence, space in document))
        for index, document in enumerate(documents)
    ]
)
SOME = "The harbour is old. Cranes stand there. A festival is held."


def test_spans_stay_where_the_reference_keeps_them(golden):
    assert compare_all(duplicate_spans(golden / "c4" / "dedupe_3_sentence_spans_datatrove.json")) > 1


@settings(deadline=None)
@given(pages=PAGES, split=st.booleans())
def test_no_remaining_span_is_a_duplicate(pages, split):
    """And nothing but whole sentences goes: what stays of a document stays in order."""
    rule = DuplicateSpans(num_sentences=2, split_sentences=split, min_sentences=0)
    kept = texts(rule, pages)
    for page in pages:
        remaining = iter(page.text.split())
        assert all(word in remaining for word in kept.get(page.url, "").split())
    assert kept.get("0", "") or not pages[0].text.strip()


@settings(deadline=None)
@given(pages=PAGES, split=st.booleans())
def test_one_of_a_document_and_its_copies_remains(pages, split):
    rule = DuplicateSpans(num_sentences=1, split_sentences=split, min_sentences=0)
    copies = [page._replace(url=f"copy of {page.url}") for page in pages]
    kept, alone = texts(rule, [*pages, *copies]), texts(rule, pages)
    assert {url: text for url, text in kept.items() if not url.startswith("copy")} == alone
    for page in copies:
        assert not rule._sentences(kept.get(page.url, "")) or "..." in page.text


def test_a_document_keeps_the_text_around_a_removed_span():
    first = Page(url="1", text=SOME)
    second = Page(url="2", text=f"New here.  {SOME.upper()}\nAnd new there. That is all.")
    counts = Counter()
    kept = deduplicate(DuplicateSpans(), [first, second], counts)
    assert kept["2"] == second._replace(text="New here.\nAnd new there. That is all.")
    assert counts == {"sentence-passed": 6, "sentence-filtered:duplicate_span": 3, "passed": 2}


def test_only_shortened_documents_need_sentences_and_words():
    short = Page(url="0", text="Just this.")
    pages = [short, Page(url="1", text=SOME), Page(url="2", text=f"{SOME} Two words. Two more. And more.")]
    assert deduplicate(DuplicateSpans(min_words=10), pages)["2"] == Dropped("filtered:too_few_words")
    assert deduplicate(DuplicateSpans(min_sentences=4), pages)["2"] == Dropped("filtered:too_few_sentences")
    assert deduplicate(DuplicateSpans(min_words=10, min_sentences=4), pages)["0"] == short


@pytest.mark.parametrize(
    "other", ["THE HARBOUR is old;  Cranes\tstand there.\nÁ féstival is held!", SOME.replace(".", "…")]
)
def test_case_punctuation_whitespace_and_accents_make_no_difference(other):
    lines = DuplicateSpans(num_sentences=1, split_sentences=False, min_sentences=0)
    as_line = [Page(url="1", text=SOME), Page(url="2", text=" ".join(other.split("\n")))]
    assert list(texts(lines, as_line)) == ["1"]


def test_numbers_make_no_difference():
    rule = DuplicateSpans(num_sentences=1, min_sentences=0)
    pages = [Page(url="1", text="In 1950 it was 3.5 m."), Page(url="2", text="In 2019 it was 12 m.")]
    assert list(texts(rule, pages)) == ["1"]


def test_a_span_needs_a_sentence():
    with pytest.raises(
        ValueError, match=r"DuplicateSpans\.num_sentences is 0; a span has 1 or more, in T5's paper 3"
    ):
        DuplicateSpans(num_sentences=0)


@pytest.mark.parametrize(
    ("repeated", "rest"),
    [
        ("今天天气很好。我们去公园吧！你来吗？", "他说：「好。」然后他走了。没有人知道。"),
        ("वह घर गया। उसने खाना खाया। फिर वह सोया। ", "राम आया। सीता गई। सब खुश थे।"),
        ("ذهب أحمد إلى البيت۔ أكل الطعام۔ ثم نام۔ ", "هل جاء علي؟ نعم جاء۔ وذهب أيضا۔"),
    ],
    ids=["Chinese", "Hindi", "Arabic"],
)
def test_sentences_of_other_scripts_are_found(repeated, rest):
    pages = [Page(url="first", text=repeated), Page(url="second", text=repeated + rest)]
    assert texts(DuplicateSpans(), pages) == {"first": repeated, "second": rest}


def test_a_quote_stays_with_its_sentence():
    rule = DuplicateSpans(num_sentences=1, min_sentences=0)
    pages = [
        Page(url="first", text="他说：「好。」然后他走了。"),
        Page(url="second", text="然后他走了。没有。"),
    ]
    assert texts(rule, pages)["second"] == "没有。"


@pytest.mark.parametrize(("opening", "closing"), ["“”", "‘’", "「」", "『』"])
def test_an_opening_quote_begins_a_sentence_and_a_closing_one_ends_it(opening, closing):
    quoted = f"{opening}好。{closing}"
    pages = [Page(url="first", text="他说话。"), Page(url="second", text=f"他说话。{quoted}没有人知道。")]
    rule = DuplicateSpans(num_sentences=1, min_sentences=0)
    assert texts(rule, pages)["second"] == f"{quoted}没有人知道。"
    assert rule._sentences(pages[1].text) == ["他说话。", quoted, "没有人知道。"]
