"""Rules of other corpora: each threshold where the paper has it, and the statistics against plain counting."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.page_statistics import (
    line_statistics,
    repetition_statistics,
    word_statistics,
)
from t5x_like.corpora.rules.quality import FineWebQuality, GopherQuality, GopherRepetition
from t5x_like.corpora.rules.rule import Dropped

RULES = GopherQuality(), GopherRepetition(), FineWebQuality()
PROSE = """The old harbour was built by fishermen in the nineteenth century, when few other towns had one.
Visitors can still see the wooden cranes along the quay, and climb two of them in summer.
Bread is baked each morning in the stone oven behind the church; it has a crust that needs good teeth.
A narrow path leads from the beach to the top of the cliff, from where ferries look like toys.
Most houses were painted yellow after the great fire because no other colour was left to buy."""


def verdict(rule, text: str) -> str:
    outcome = rule.apply(Page("example.org", text), Counter())
    return outcome.reason if isinstance(outcome, Dropped) else "passed"


@pytest.mark.parametrize("rule", RULES)
def test_prose_passes(rule):
    page = Page("example.org", PROSE)
    assert rule.apply(page, Counter()) is page


def words(count: int, word: str = "boat") -> str:
    return " ".join(["the", "to"] + [word] * (count - 2))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (words(49), "too_few_words"),
        (words(50), None),
        (words(100_000), None),
        (words(100_001), "too_many_words"),
        (words(60, "ab"), "word_length"),
        (words(59, "abc") + " abcd", None),
        (words(60, "a" * 11), "word_length"),
        (words(54) + " ####" + " #" * 5, "hash_symbols"),
        (words(54) + " #" * 6, None),
        (words(60, "boat...") + "", "ellipses"),
        (words(54) + " boat..." * 3 + " boat…" * 3 + ".", None),
        (words(54) + " boat..." * 4 + " boat…" * 3, "ellipses"),
        (words(48) + " 1,000" * 12, None),
        (words(48) + " 1,000" * 13, "words_without_letters"),
        (words(60).replace("to ", "two "), "stop_words"),
        (words(60).upper(), None),
        ("\n".join(["• the boat to somewhere"] * 19 + ["the boat"]), "bullet_lines"),
        ("\n".join(["- the boat to somewhere"] * 18 + ["the boat"] * 2), None),
        ("\n".join(["the boat that we have to buy soon from someone..."] * 3 + [words(12)] * 7), None),
        (
            "\n".join(["the boat that we have to buy soon from someone…"] * 4 + [words(12)] * 6),
            "ellipsis_lines",
        ),
        ("", "too_few_words"),
    ],
)
def test_gophers_quality_rules_have_their_thresholds(text, expected):
    assert verdict(GopherQuality(), text) == (f"filtered:{expected}" if expected else "passed")


def numbered(count: int, start: int = 0) -> list[str]:
    return [f"w{index:04}" for index in range(start, start + count)]


def test_gophers_rules_about_repeated_lines_and_paragraphs():
    lines = [f"a line, number {n:02}" for n in range(10)]
    no_n_grams = {"max_top_n_grams": (1, 1, 1), "max_duplicate_n_grams": (1,) * 6}
    rule = GopherRepetition(**no_n_grams)
    assert verdict(rule, "\n".join(lines[:6] + ["x"] * 4)) == "passed"  # 3 of 10 again
    assert verdict(rule, "\n".join(lines[:5] + ["x"] * 4)) == "filtered:duplicate_lines"
    assert verdict(rule, "\n".join([*lines[:8], *lines[:2]])) == "passed"
    assert verdict(rule, "\n".join([*lines[:7], *lines[:2]])) == "filtered:duplicate_line_characters"
    rule = GopherRepetition(max_duplicate_lines=1, max_duplicate_line_characters=1, **no_n_grams)
    assert verdict(rule, "\n \n".join(lines[:6] + ["x"] * 4)) == "passed"
    assert verdict(rule, "\n \n".join(lines[:5] + ["x"] * 4)) == "filtered:duplicate_paragraphs"
    two = [f"{line}\n{line}!" for line in lines]
    assert verdict(rule, "\n\n".join([*two[:7], *two[:2]])) == "filtered:duplicate_paragraph_characters"


@pytest.mark.parametrize("n", range(2, 11))
def test_gophers_rules_about_repeated_n_grams(n):
    gram = " ".join(numbered(n))
    limit = dict(zip(range(2, 11), (0.20, 0.18, 0.16, 0.15, 0.14, 0.13, 0.12, 0.11, 0.10), strict=True))[n]
    name = f"filtered:top_{n}_gram" if n < 5 else f"filtered:duplicate_{n}_grams"
    occurrences = 2 if n < 5 else 1  # the first is free for duplicates
    exact = round(n * occurrences / limit)  # so many words have just the fraction, or little more
    for total, dropped in ((exact + 2, False), (exact - 2, True)):
        rest = numbered(total - 2 * n, 100)
        half = len(rest) // 2
        text = " ".join([gram, *rest[:half], gram, *rest[half:]])
        only = GopherRepetition(
            max_top_n_grams=tuple(limit if k == n else 1.0 for k in (2, 3, 4)),
            max_duplicate_n_grams=tuple(limit if k == n else 1.0 for k in range(5, 11)),
        )
        assert verdict(only, text) == (name if dropped else "passed")


def plain_repeated(text: str, n: int) -> float:
    result = text.split()
    seen, covered = set(), set()
    for start in range(len(result) - n + 1):
        gram = tuple(result[start : start + n])
        if gram in seen:
            covered.update(range(start, start + n))
        seen.add(gram)
    return sum(len(result[place]) for place in covered) / max(1, sum(map(len, result)))


def plain_top(text: str, n: int) -> float:
    result = text.split()
    grams = Counter(tuple(result[start : start + n]) for start in range(len(result) - n + 1))
    most = max(grams.values(), default=1)
    if most == 1:
        return 0.0
    longest = max(sum(map(len, gram)) for gram, count in grams.items() if count == most)
    return min(1.0, most * longest / sum(map(len, result)))


@given(st.lists(st.sampled_from(["a", "bc", "def", "a.", "1"]), max_size=60))
def test_repetition_is_what_plain_counting_finds(result):
    text = " ".join(result)
    statistics = repetition_statistics(text)
    assert statistics.top_n_grams == pytest.approx([plain_top(text, n) for n in (2, 3, 4)])
    assert statistics.duplicate_n_grams == pytest.approx([plain_repeated(text, n) for n in range(5, 11)])


@given(st.text(st.sampled_from("ab1 .\n-•…#é\u2028")))
def test_fractions_are_fractions(text):
    result = (*line_statistics(text), word_statistics(text).alphabetic_fraction)
    repeated = repetition_statistics(text)
    assert all(
        0 <= value <= 1
        for value in (*result, *repeated[:2], *repeated.top_n_grams, *repeated.duplicate_n_grams)
    )
    assert word_statistics(text).num_words == len(text.split())


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["x" * 40] * 0, "line_punctuation"),
        (
            [f"{n:40}." for n in range(3)] + [f"{n:40}" for n in range(22)],
            "line_punctuation",
        ),  # 3 of 25 are 0.12
        ([f"{n:040}." for n in range(4)] + [f"{n:041}" for n in range(21)], None),
        ([f"{n:040}." for n in range(9)] + ["0" * 40 + "."], "duplicate_line_characters"),  # 1 of 10
        ([f"{n:040}." for n in range(10)] + ["0" * 40 + "."], None),
        ([f"{n:028}." for n in range(67)] + [f"{n:029}." for n in range(33)], "short_lines"),
        ([f"{n:028}." for n in range(66)] + [f"{n:029}." for n in range(34)], None),
    ],
)
def test_finewebs_rules_have_their_thresholds(lines, expected):
    assert verdict(FineWebQuality(), "\n \n".join(lines)) == (
        f"filtered:{expected}" if expected else "passed"
    )


def test_invalid_settings_are_refused():
    with pytest.raises(ValueError, match=r"GopherQuality.min_words is -1; give 0 or more"):
        GopherQuality(min_words=-1)
    with pytest.raises(ValueError, match=r"max_top_n_grams is \(0.2,\); give 3 fractions, one for each n"):
        GopherRepetition(max_top_n_grams=(0.2,))
    with pytest.raises(ValueError, match=r"FineWebQuality.max_short_lines is -0.1"):
        FineWebQuality(max_short_lines=-0.1)


def test_counting_takes_linear_time():
    for unit in ("1", "a", "\n", "\n ", "1 ", "...", "•\n", "a\n\n"):
        text = unit * (400_000 // len(unit))
        start = time.process_time()
        for rule in RULES:
            verdict(rule, text)
        repetition_statistics(text)
        assert time.process_time() - start < 10, unit


@pytest.mark.slow
def test_ten_megabytes_are_counted_in_a_minute():
    for unit in ("1", "a", "\n", " ", "\n ", "\n\n", "1 ", "...", "word ", "•\n", "a\n\n"):
        text = unit * (10_000_000 // len(unit))
        start = time.process_time()
        for rule in RULES:
            verdict(rule, text)
        repetition_statistics(text)
        assert time.process_time() - start < 60, unit
