"""Removal of evaluation texts from pages."""

import gzip
import json
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.contamination import Contamination, Overlap
from t5x_like.corpora.rules.evaluation_n_grams import EvaluationNGrams, Hit, normalize_words
from t5x_like.corpora.rules.rule import Dropped

QUESTION = (
    "Which of the two old harbours was built by fishermen in the nineteenth century, and why?"  # 16 words
)
FILLER = (
    "Something else is written here, and it goes on for quite a while in words that nobody asks for. " * 6
)


def apply(rule: Contamination, text: str) -> tuple[str, Counter[str]]:
    counts: Counter[str] = Counter()
    outcome = rule.apply(Page("example.org", text), counts)
    return outcome.reason if isinstance(outcome, Dropped) else outcome.text, counts


def test_a_question_is_cut_out_with_its_window():
    rule = Contamination(texts=[("quiz", QUESTION)], window=20)
    left, counts = apply(rule, f"{FILLER}{QUESTION.upper()} {FILLER}")
    assert counts == {"n-grams:quiz": 4, "pages:quiz": 1, "cut": 1}
    before, after = left.split("\n")
    assert FILLER.startswith(before)
    assert FILLER.strip().endswith(after)
    assert 20 <= len(FILLER) - len(before) <= 40
    assert 20 <= len(FILLER.strip()) - len(after) <= 40
    assert apply(rule, left) == (left, Counter())


def test_case_punctuation_and_line_breaks_make_no_difference():
    rule = Contamination(texts=[("quiz", QUESTION)], action="drop")
    hidden = QUESTION.lower().replace(" ", " \n- ").replace("old", "“old”").replace("century", "cen-tury…")
    assert apply(rule, hidden)[0] == "filtered:contaminated"
    assert apply(rule, QUESTION.replace("fishermen", "sailors"))[0].startswith("Which")


def test_pages_in_many_pieces_or_without_text_are_dropped():
    rule = Contamination(texts=[("quiz", QUESTION)])
    assert apply(rule, QUESTION)[0] == "filtered:contaminated"
    assert apply(rule, f"{FILLER[:100]} {QUESTION} {FILLER[:100]}")[0] == "filtered:contaminated"
    nine = f"{QUESTION} ".join([FILLER * 2] * 10)
    assert apply(rule, nine)[0].count("\n") == 9
    assert apply(rule, nine + QUESTION + FILLER * 2)[0] == "filtered:contaminated"


def test_pages_may_only_be_reported():
    rule = Contamination(texts=[("quiz", QUESTION), ("other", f"So: {QUESTION}")], action="report")
    text, counts = apply(rule, f"A. {QUESTION}")
    assert text == f"A. {QUESTION}"
    assert counts == {"n-grams:quiz": 4, "n-grams:other": 4, "pages:quiz": 1, "pages:other": 1}
    assert rule.overlaps(f"A. ({QUESTION}) ‒ no.") == [
        Overlap("quiz", f"({QUESTION})"),
        Overlap("other", f"({QUESTION})"),
    ]


def test_pages_with_few_hits_may_pass():
    rule = Contamination(texts=[("quiz", QUESTION)], action="drop", min_hits=5)
    assert apply(rule, QUESTION)[0] == QUESTION
    assert apply(rule, f"{QUESTION} {QUESTION}")[0] == "filtered:contaminated"


def test_sets_of_short_texts_have_shorter_n_grams():
    ten = " ".join(f"w{index}" for index in range(10))
    rule = Contamination(texts=[("short", ten), ("long", QUESTION)], action="drop")
    assert apply(rule, ten)[0] == "filtered:contaminated"
    assert apply(rule, ten[:-3])[0] == ten[:-3]  # nine of its ten words
    assert apply(rule, " ".join(QUESTION.split()[:12]))[0] != "filtered:contaminated"
    assert EvaluationNGrams([("a", "one two"), ("b", ten)], n=13, min_n=8).sizes == {"a": 8, "b": 10}


def test_files_are_sets_named_after_them(tmp_path):
    (tmp_path / "squad.jsonl").write_text(
        json.dumps({"question": QUESTION, "id": 3}) + "\n" + json.dumps("x") + "\n"
    )
    (tmp_path / "boolq.validation.txt.gz").write_bytes(gzip.compress(f"{QUESTION}\n".encode()))
    rule = Contamination(files=str(tmp_path / "*"), action="report", n=8)
    assert apply(rule, QUESTION)[1] == {
        "n-grams:squad": 9,
        "pages:squad": 1,
        "n-grams:boolq": 9,
        "pages:boolq": 1,
    }
    again = Contamination(files=(str(tmp_path / "*.gz"), str(tmp_path / "*.jsonl")), n=8)
    other = Contamination(files=str(tmp_path / "*.gz"), n=8)
    assert again.fingerprint() == rule.fingerprint() != other.fingerprint()


@given(
    st.lists(st.sampled_from("abc"), min_size=3, max_size=9),
    st.lists(st.sampled_from(["a", "B.", "-", "c", "d", "\n"]), max_size=30),
)
def test_hits_are_those_of_plain_comparison(text, page):
    words = normalize_words(" ".join(page))
    grams = {tuple(text[start : start + 3]) for start in range(len(text) - 2)}
    expected = [Hit(n, 3, "set") for n in range(len(words) - 2) if tuple(words[n : n + 3]) in grams]
    assert EvaluationNGrams([("set", " ".join(text))], n=3, min_n=3).hits(words) == expected


@given(st.lists(st.sampled_from([QUESTION, FILLER[:97], "...", "“É”", "\n"]), max_size=12))
def test_cleaned_pages_are_clean(parts):
    rule = Contamination(texts=[("quiz", QUESTION)], window=5, min_piece=10, max_pieces=100)
    left, _ = apply(rule, " ".join(parts))
    assert rule.overlaps(left) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "nothing to compare with; give files or texts"),
        ({"texts": [("a", "b")], "action": "mask"}, "action is 'mask'; choose from cut, drop, report"),
        ({"texts": [("a", "b")], "min_n": 14}, r"min_n is 14; give 1 to n \(13\)"),
        ({"texts": [("a", "b")], "max_pieces": 0}, "max_pieces is 0; give 1 or more"),
    ],
)
def test_invalid_settings_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Contamination(**fields)


def test_texts_that_cannot_be_used_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no text of tiny has 8 words or more; nothing would be found"):
        apply(Contamination(texts=[("tiny", "two words")]), "text")
    (tmp_path / "a.jsonl").write_text("{\n")
    with pytest.raises(ValueError, match=r"a.jsonl: line 1 is not JSON"):
        apply(Contamination(files=str(tmp_path / "a.jsonl")), "text")
    (tmp_path / "b.jsonl").write_text('"x"\n[1]\n')
    with pytest.raises(
        ValueError, match=r"b.jsonl: line 2 is '\[1\]'; needed is a string, or an object with strings"
    ):
        apply(Contamination(files=str(tmp_path / "b.jsonl")), "text")


def test_comparing_takes_linear_time():
    rule = Contamination(texts=[("quiz", QUESTION), ("a", "a " * 20)])
    for unit in ("a", "a ", "which of the ", f"{QUESTION} ", ".", ". ", "é"):
        text = unit * (400_000 // len(unit))
        start = time.process_time()
        apply(rule, text)
        assert time.process_time() - start < 5, unit
