"""Lines of documentation that are prose."""

from collections import Counter

import pytest

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.page_explanation import explain_page
from t5x_like.corpora.rules.prose import ProseLines
from t5x_like.corpora.rules.rule import Dropped

SENTENCES = (
    "The first sentence says what the program does.",
    "The second one explains why it is needed at all.",
    "A third is long enough to be counted among them.",
)


def kept(*lines: str, **fields) -> list[str]:
    fields = {"min_sentences": 0, "min_share": 0.0, **fields}
    result = ProseLines(**fields).apply(Page("u", "\n".join(lines)), Counter())
    assert isinstance(result, Page)
    return result.text.splitlines()


def test_sentences_stay_also_before_an_example():
    lines = [*SENTENCES, "To compile the program, use the following command:", "Is it really so (or not)?"]
    assert kept(*lines) == lines


@pytest.mark.parametrize(
    "line",
    [
        "PyObject *PyList_New(Py_ssize_t len);",
        "if (x_max > 0 && y_min < 1) return foo_bar(x_max);",
        "0x00 0x01 0x02 0x03 0x04 0x05.",
        "-v, --verbose --quiet --no-color --help.",
        "Lorem ipsum dolor sit amet consectetur adipiscing elit sed.",  # no word of English grammar
        "Characters such as \ufffd can not be read by anybody.",
        "Too short here.",
        "and:",
        "A word of " + "x" * 101 + " characters is no word of a language.",
    ],
)
def test_code_options_and_other_lines_go(line: str):
    assert kept(*SENTENCES, line) == list(SENTENCES)


def test_a_heading_stays_before_a_sentence_and_goes_before_nothing():
    lines = ["Getting started", "Installing from source", SENTENCES[0], "See also"]
    assert kept(*lines) == lines[:3]


def test_the_number_of_a_heading_does_not_count():
    lines = [
        "10.4. Scripts",
        SENTENCES[0],
        "Table 1. Types of data",
        SENTENCES[1],
        "A.2 Devices",
        SENTENCES[2],
    ]
    assert kept(*lines) == lines


def test_of_a_menu_before_a_sentence_the_last_line_stays_as_heading():
    menu = ["Home", "Download", "Get help", "Introduction"]
    assert kept(*menu, "", SENTENCES[0]) == ["Introduction", SENTENCES[0]]


def test_a_list_stays_after_a_colon():
    items = ["a fast parser", "a slow parser", "no parser at all"]
    announced = "The program offers you the following choices:"
    assert kept(announced, *items, "", SENTENCES[0]) == [announced, *items, SENTENCES[0]]
    assert kept(announced, *items, SENTENCES[0], max_items=2) == [announced, SENTENCES[0]]


def test_cells_of_a_table_are_lines():
    assert kept(f"-v\t\t{SENTENCES[0]}\tx_1", SENTENCES[1]) == list(SENTENCES[:2])


def test_a_page_needs_sentences_and_a_share_of_prose():
    page = Page("u", "\n".join(SENTENCES))
    assert ProseLines(min_sentences=3).apply(page, Counter()) == page
    few = ProseLines(min_sentences=4).apply(page, Counter())
    assert few == Dropped("filtered:too_few_sentences")
    code = page._replace(text=page.text + "\nx_1 = y_2;" * 100)
    assert ProseLines().apply(code, Counter()) == Dropped("filtered:mostly_not_prose")
    assert isinstance(ProseLines(min_share=0.05).apply(code, Counter()), Page)


def test_lines_are_explained_as_they_are_decided():
    page = Page("u", "\n".join(["Home", "Search", *SENTENCES, "x_1 = y_2()"]))
    rule = ProseLines(max_headings=1)
    counts: Counter[str] = Counter()
    rule.apply(page, counts)
    lines = explain_page(page, [rule]).lines
    assert Counter(line.decision for line in lines) == counts
    assert [line.decision.partition(":")[2] for line in lines] == ["fragment", "", "", "", "", "not_prose"]
    assert [line.out for line in lines][1:5] == ["Search", *SENTENCES]


def test_cleaning_a_clean_page_changes_nothing():
    page = Page("u", "\n".join(["Home", "Setup", *SENTENCES]))
    once = ProseLines().apply(page, Counter())
    assert isinstance(once, Page)
    assert ProseLines().apply(once, Counter()) == once


@pytest.mark.parametrize(
    "fields",
    [{"min_words": 0}, {"max_headings": -1}, {"min_share": 1.1}, {"min_plain_words": -0.1}],
)
def test_fields_out_of_range_are_refused(fields):
    with pytest.raises(ValueError, match=r"ProseLines\."):
        ProseLines(**fields)
