"""Joining of wrapped lines."""

from collections import Counter

import pytest

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.wrapped_lines import JoinWrappedLines

WRAPPED = """\
        A TITLE

   The first paragraph has so many words that its first line is full and
   then on the next line, where it ends.
   Next.

   Second paragraph: its lines are as long as those of the first one, and
   the lines of a list follow it:

   - an item that is long enough to fill the next line, which is what
     this item does
   - a short item
   1. numbered and long enough to fill the whole line of this paragraph,
      so it continues

     x = function(argument)    # a comment in a column of its own, long
     y = function(argument)    # another comment in its column, as long
"""
JOINED = [
    "A TITLE",
    "The first paragraph has so many words that its first line is full and then on the next line, where it ends.",
    "Next.",
    "Second paragraph: its lines are as long as those of the first one, and the lines of a list follow it:",
    "- an item that is long enough to fill the next line, which is what this item does",
    "- a short item",
    "1. numbered and long enough to fill the whole line of this paragraph, so it continues",
    "x = function(argument)    # a comment in a column of its own, long",
    "y = function(argument)    # another comment in its column, as long",
]


def join(text: str, content_type: str = "", **fields) -> tuple[str, Counter[str]]:
    counts: Counter[str] = Counter()
    page = JoinWrappedLines(**fields).apply(Page("u", text, content_type=content_type), counts)
    assert isinstance(page, Page)
    return page.text, counts


def test_paragraphs_and_items_become_lines_and_tables_stay():
    text, counts = join(WRAPPED)
    assert [line.strip() for line in text.splitlines() if line.strip()] == JOINED
    assert counts == {"joined": 4}


@pytest.mark.parametrize("content_type", ["text/html", "text/html; charset=utf-8", "text/markdown"])
def test_pages_of_html_and_markdown_stay_as_they_are(content_type: str):
    assert join(WRAPPED, content_type) == (WRAPPED, {})


@pytest.mark.parametrize("text", ["", "short lines\nof a poem", "word " * 40 + "\n" + "word " * 40])
def test_pages_that_are_not_wrapped_stay_as_they_are(text: str):
    assert join(text) == (text, {})


def test_slack_joins_lines_that_are_less_full():
    text = "\n".join(["word " * 12 + "end", "word " * 9 + "end", "last"])
    assert join(text, slack=0.0)[0].count("\n") == 1
    assert join(text, slack=0.3)[0].count("\n") == 0


@pytest.mark.parametrize("fields", [{"min_width": 0}, {"min_width": 101}, {"slack": 1.0}, {"slack": -0.1}])
def test_fields_out_of_range_are_refused(fields):
    with pytest.raises(ValueError, match="give"):
        JoinWrappedLines(**fields)
