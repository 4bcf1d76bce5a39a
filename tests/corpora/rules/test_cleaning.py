"""Cleaning of pages: two implementations with equal results, switches, and repeated cleaning."""

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules import c4_rules
from t5x_like.corpora.rules.cleaning import C4Cleaning, drops_page
from t5x_like.corpora.rules.rule import Dropped

SEPARATORS = ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\n\n"]
PIECES = [
    *("A line of some words", "Two", "a b c d e", "Dr. Smith met J. P. Morgan", "x" * 12, "é" * 11, "旧港口"),
    *(" ", "  ", "\t", "\x1f", "\u00a0", "\u200b", "\u3000", "\ufeff"),
    *("[1]", "[]", "[edit]", "[citation needed]", "[Edit]", "[a]", "[٣]", "[", "]", "[[1]2]", "[ed[1]it]"),
    *(
        ".",
        "?",
        "!",
        '"',
        "...",
        "..",
        "…",
        "。",
        "”",
        "'",
        ":",
        ".)",
        "?!",
        ' "Go!"',
        "Hi. There. You. All.",
    ),
    *("javascript", "JavaScript", "java[1]script", "Lorem Ipsum", "lorem[] ipsum", "LOREM IPSUM"),
    *(
        "{",
        "}",
        "Terms of Use",
        "PRIVACY POLICY",
        "cookie policy".replace("k", "\u212a"),
        "use of cookies",
        "uſe cookies",
        "İ",
        "ΑΣ",
    ),
]
lines = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)
pages = st.lists(st.tuples(lines, st.sampled_from(SEPARATORS)), max_size=9).map(
    lambda pairs: "".join(itertools.chain.from_iterable(pairs))
)
switches = st.fixed_dictionaries(
    {},
    optional={
        "max_word_chars": st.just(11),
        "min_words": st.integers(1, 6),
        "min_sentences": st.integers(0, 7),
        **{
            name: st.booleans()
            for name in (
                "remove_citations",
                "require_end_mark",
                "drop_placeholder_pages",
                "drop_javascript_lines",
                "drop_code_pages",
                "drop_policy_lines",
            )
        },
    },
)


C4 = C4Cleaning()


def clean(text: str, rule: C4Cleaning = C4) -> tuple[str | None, Counter[str]]:
    counts: Counter[str] = Counter()
    result = rule.apply(Page("u", text), counts)
    return (None if isinstance(result, Dropped) else result.text), counts


@given(pages, switches)
@example("a b c d e.\nHi {.\nlorem ipsum a b c.\n", {})
@example("[1] " * 3 + "a b c d e.\n" * 2, {"min_sentences": 2})
@settings(max_examples=400)
def test_apply_and_explain_agree(text: str, changes: dict[str, Any]):
    rule, counts = C4Cleaning(**changes), Counter()
    page = Page("u", text, "2019")
    explanation = rule.explain(page)
    assert rule.apply(page, counts) == explanation.result
    assert [verdict.line for verdict in explanation.lines] == text.splitlines()
    reached = itertools.takewhile(lambda line: not drops_page(line.decision), explanation.lines)
    assert counts == Counter(line.decision for line in reached)


@given(pages, switches)
@settings(max_examples=200)
def test_cleaning_a_clean_page_changes_nothing_where_citations_left_nothing_behind(
    text: str, changes: dict[str, Any]
):
    rule = C4Cleaning(**changes)
    once, _ = clean(text, rule)
    kept = [verdict.out for verdict in rule.explain(Page("u", text)).lines if verdict.out is not None]
    left = [
        line
        for line in kept
        if line != line.strip() or (rule.remove_citations and c4_rules.without_citations(line) != line)
    ]
    if once is not None and not left:
        twice, counts = clean(once, rule)
        assert twice == once
        assert set(counts) <= {c4_rules.PASSED}


@pytest.mark.parametrize(
    ("line", "once", "twice"),
    [
        ("[1] It began with a space.", " It began with a space.", "It began with a space."),
        (
            "Brackets in brackets are left [[1]2].",
            "Brackets in brackets are left [2].",
            "Brackets in brackets are left .",
        ),
    ],
)
def test_a_second_pass_removes_what_a_removed_citation_leaves(line: str, once: str, twice: str):
    prose = "One two three four five. Six. Seven."
    cleaned, _ = clean(f"{prose}\n{line}")
    assert cleaned is not None
    assert cleaned == f"{prose}\n{once}"
    assert clean(cleaned)[0] == f"{prose}\n{twice}"


def test_a_page_that_begins_with_the_rest_of_a_citation_is_stripped_at_once():
    assert clean("[1] It began with a space. So it did. Yes.")[0] == "It began with a space. So it did. Yes."


@pytest.mark.parametrize(
    ("field", "line", "decision"),
    [
        ("max_word_chars", "It has a word that is " + "long" * 251 + ".", "line-filtered:too_long_word"),
        ("require_end_mark", "It ends without any mark at all", "line-filtered:no_endmark"),
        ("min_words", "It has four words.", "line-filtered:too_short"),
        ("drop_placeholder_pages", "It says lorem ipsum to you.", "filtered:loremipsum"),
        ("drop_javascript_lines", "It asks you for JavaScript.", "line-filtered:javascript"),
        ("drop_code_pages", "It has code { in it.", "filtered:squigglybracket"),
        ("drop_policy_lines", "It has a privacy policy.", "line-filtered:policy"),
    ],
)
def test_every_rule_can_be_switched_off(field: str, line: str, decision: str):
    off: Any = {"max_word_chars": 10**6, "min_words": 1}.get(field, False)
    for rule, expected in ((C4Cleaning(), decision), (C4Cleaning(**{field: off}), "line-passed")):
        (verdict,) = rule.explain(Page("", line)).lines
        assert verdict.decision == expected
        assert verdict.out == (line if expected == "line-passed" else None)


def test_citations_stay_if_the_rule_is_off():
    (verdict,) = C4Cleaning(remove_citations=False).explain(Page("", "This is as it was[1].")).lines
    assert verdict.out == "This is as it was[1]."


@pytest.mark.parametrize(("field", "value"), [("max_word_chars", 0), ("min_words", 0), ("min_sentences", -1)])
def test_thresholds_that_are_too_low_are_refused(field: str, value: Any):
    with pytest.raises(ValueError, match=rf"C4Cleaning.{field} is {value}; it must be at least {value + 1}"):
        C4Cleaning(**{field: value})
