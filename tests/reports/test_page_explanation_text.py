"""Explanations of pages on a terminal."""

import io

import pytest

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.cleaning import C4Cleaning
from t5x_like.corpora.rules.page_explanation import explain_page
from t5x_like.reports.page_explanation_text import PageExplanationText, printable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colors_and_lines_that_fit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = PageExplanationText.for_stream(Terminal())
    page = text.page("a.org", explain_page(Page("", "Home\n" + "many words " * 9 + "end."), [C4Cleaning()]))
    head, rule, *lines = page.rstrip().split("\n")
    assert head == "\033[1ma.org\033[0m  \033[31mdropped, filtered:too_few_sentences\033[0m"
    assert "\033[31mfiltered:too_few_sentences\033[0m" in rule
    assert lines[0] == "    \033[31mline-filtered:no_endmark\033[0m     Home"
    assert lines[1].startswith("    \033[32mline-passed             \033[0m   1 many words")
    assert all(len(line) - len("\033[31m\033[0m") <= 60 for line in lines)


def test_no_color_and_pipes_get_plain_text(monkeypatch: pytest.MonkeyPatch):
    assert not PageExplanationText.for_stream(io.StringIO()).colors
    monkeypatch.setenv("NO_COLOR", "1")
    assert not PageExplanationText.for_stream(Terminal()).colors


@pytest.mark.parametrize(
    ("text", "shown"),
    [("\x1b[2J", "\\x1b[2J"), ("a\u202eb", "a\\u202eb"), ("\ud800", "\\ud800"), ("é 旧 “", "é 旧 “")],
)
def test_characters_that_could_steer_a_terminal_are_spelled_out(text: str, shown: str):
    assert printable(text) == shown
