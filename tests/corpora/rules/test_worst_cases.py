"""Time grows at most linearly on text designed to slow down regular expressions."""

import time
from collections import Counter
from collections.abc import Callable

import pytest

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.cleaning import C4Cleaning
from t5x_like.corpora.rules.sentences import count_sentences, has_sentences
from t5x_like.corpora.rules.url_lists import normalize_url
from t5x_like.corpora.rules.word_tokens import split_tokens

UNITS = [
    *(
        "[",
        "[1",
        "[1]",
        "[[1]",
        "[edit",
        "[citation needed",
        " ",
        "\u2028",
        "\x1f",
        "-",
        "--",
        "a-",
        ",",
        "a,",
    ),
    *(
        ".",
        "...",
        "a.",
        "a. ",
        ". ",
        ". . ",
        ".\xa0",
        "x.\xa0",
        "a\xa0b.\xa0",
        ".\n",
        ".)",
        '."',
        '. "',
        ". --",
    ),
    *(
        '"',
        "'",
        "?",
        '!"',
        "1.",
        "1,",
        "A. ",
        "1. ",
        "Mr. ",
        "a b c d e.\n",
        "word.\n",
        " etc.\na",
        "http://",
        "?utm_",
        "\x1c.",
        "{",
    ),
]
RULE = C4Cleaning(max_word_chars=10**9)  # so that the later rules see the line as well


def clean(text: str) -> None:
    RULE.apply(Page("", text), Counter())
    RULE.apply(Page("", f"a b c d {text} e."), Counter())


def has_many_sentences(text: str) -> bool:
    return has_sentences(text, 10**9)


def seconds_for(work: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    work(text)
    return time.process_time() - start


@pytest.mark.parametrize(
    "work",
    [
        clean,
        count_sentences,
        pytest.param(has_many_sentences, marks=pytest.mark.slow),
        normalize_url,
        split_tokens,
    ],
)
def test_no_text_takes_time_that_grows_with_its_square(work: Callable[[str], object]):
    for unit in UNITS:
        short, long = (unit * (size // len(unit)) for size in (2_000, 32_000))
        first = max(min(seconds_for(work, short) for _ in range(3)), 1e-3)
        assert seconds_for(work, long) < 16 * 6 * first, repr(unit)  # squared it would be 256


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["[", "[1", " ", "a.", '"', ".", "-", "a,"])
def test_ten_megabytes_are_processed_in_seconds(unit: str):
    text = unit * (10**7 // len(unit))
    for work in (clean, count_sentences, normalize_url):
        assert seconds_for(work, text) < 60
