"""Pages are dropped for exactly those words that the reference's regular expression finds."""

import re
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.references.pages import bad_words
from benchmarks.references.reference import compare_all
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.bad_words import BadWords, _Terms, read_lists
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.io.files import shipped_directory


def write_lists(folder: Path, lists: dict[str, list[str]]) -> str:
    folder.mkdir(exist_ok=True)
    for language, terms in lists.items():
        (folder / f"{language}.txt").write_text("".join(f"{term}\n" for term in terms), encoding="utf-8")
    return str(folder)


def keeps(rule: BadWords, text: str, language: str | None = "en", url: str = "example.org") -> bool:
    return not isinstance(rule.apply(Page(url, text, language=language), Counter()), Dropped)


def test_every_recorded_verdict_is_the_reference_s(golden):
    assert compare_all(bad_words(golden / "c4" / "badwords_semantics.json")) > 100


TERMS = ["ab", "b", "a b", "b-", "-a", "++", "é", "ba b", "a_", "\n", "İ".lower(), "\U0001f595", "²"]
LETTERS = st.sampled_from([*"abAB _-+.é\n²·٣", "İ", "ß", "\U0001f595", "\u0301", "\u2028", "\ud800"])


@given(st.lists(st.sampled_from(TERMS), min_size=1), st.lists(LETTERS, max_size=12), st.booleans())
@example(["b", "ab"], ["a", "b"], False)
@example(["a b", "b"], [*"a b"], False)
def test_the_automaton_finds_what_the_regular_expression_does(terms, letters, anywhere):
    text = "".join(letters).lower()
    choice = "|".join(map(re.escape, terms))
    expected = re.search(choice if anywhere else rf"(?:\W|^)({choice})(?:\W|$)", text) is not None
    assert _Terms(terms, anywhere=anywhere).are_in(text) == expected


def test_counts_are_those_of_the_reference(tmp_path):
    rule = BadWords(lists=write_lists(tmp_path / "lists", {"en": ["bad"]}), filter_fraction=0.5)
    counts: Counter[str] = Counter()
    for text, language, url in [
        *(("bad", "en", f"example.org/{n}") for n in range(40)),
        *(("good", "en-GB", "a"), ("good", "en", "a"), ("bad", "it", "a")),
    ]:
        rule.apply(Page(url, text, language=language), counts)
    assert counts["-en:passed"] == 2
    assert counts["-en:filtered"] + counts["-en:soft-passed"] == 40
    assert counts["-en:soft-passed"] == counts["soft-passed"]
    assert 10 < counts["-en:filtered"] < 30


def test_a_page_of_an_unknown_language_is_an_error_not_a_pass():
    with pytest.raises(ValueError, match=r"the language of 'example.org': put Languages before it"):
        keeps(BadWords(), "text", None)
    assert keeps(BadWords(), "text", "und")


def test_terms_too_common_in_japanese_and_chinese_are_left_out_as_in_mc4(tmp_path):
    lists = write_lists(tmp_path / "lists", {"zh": ["性", "坏词"], "en": ["性"]})
    assert keeps(BadWords(lists=lists), "女性", "zh-cn")
    assert not keeps(BadWords(lists=lists), "一个坏词啊", "zh-tw")
    assert not keeps(BadWords(lists=lists, leave_out=()), "女性", "zh")
    assert not keeps(BadWords(lists=lists), "the 性 sign")


def test_terms_with_capitals_are_found_only_with_lower_terms(tmp_path):
    lists = write_lists(tmp_path / "lists", {"de": ["Wort"]})
    assert keeps(BadWords(lists=lists), "Ein Wort", "de")
    assert not keeps(BadWords(lists=lists, lower_terms=True), "Ein Wort", "de")


def test_lists_are_read_in_every_format(tmp_path):
    folder = Path(write_lists(tmp_path / "lists", {"fr": ["un", "", " deux  "], "fr-CA": ["trois"]}))
    (folder / "de.json").write_text('["eins"]')
    (folder / "README.md").write_text("no terms")
    assert read_lists(str(folder)) == {"fr": {"un", "deux", "trois"}, "de": {"eins"}}
    assert read_lists(str(folder / "fr.txt")) == {"fr": {"un", "deux"}}
    (tmp_path / "all.json").write_text('{"en": ["one"], "it": ["uno"]}')
    assert read_lists(str(tmp_path / "all.json")) == {"en": {"one"}, "it": {"uno"}}
    (tmp_path / "sv.txt").write_bytes(b"\xef\xbb\xbfett\r\ntv\xc3\xa5\r\n")
    assert read_lists(str(tmp_path / "sv.txt")) == {"sv": {"ett", "två"}}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "words.txt",
            b"a\n",
            r"language of the terms in .*words.txt is unknown; name the file by its code: en.txt",
        ),
        ("en.txt", b"\xff\xfe\n", r"en.txt can't be read .*; give UTF-8, one term a line or a JSON list"),
        ("en.json", b"[", r"en.json can't be read"),
        ("en.json", b"[1]", r"needed are a JSON list of strings, or such lists by language"),
        ("en.json", b'"a"', r"needed are a JSON list of strings"),
        ("en.txt", b"\n \n", r"has no terms; give a folder of files such as en.txt"),
    ],
)
def test_lists_that_cannot_be_used_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        keeps(BadWords(lists=str(tmp_path / name)), "text")


def test_invalid_settings_are_refused():
    with pytest.raises(ValueError, match="filter_fraction is 2; give 0"):
        BadWords(filter_fraction=2)
    with pytest.raises(ValueError, match="'data/no_words' does not exist"):
        keeps(BadWords(lists="data/no_words"), "text")


def test_another_list_is_another_fingerprint(tmp_path):
    first = BadWords(lists=write_lists(tmp_path / "first", {"en": ["one", "two"]}))
    again = BadWords(lists=write_lists(tmp_path / "again", {"en": ["two", "one"]}))
    other = BadWords(lists=write_lists(tmp_path / "other", {"en": ["one"]}))
    assert first.fingerprint() == again.fingerprint() != other.fingerprint()


def test_shipped_lists_are_c4s():
    lists = read_lists(str(shipped_directory("data") / "bad_words"))
    assert len(lists["en"]) == 377
    assert len(lists) == 27
    assert all(" " not in term[:1] + term[-1:] for terms in lists.values() for term in terms)


def test_ten_megabytes_are_read_in_a_second():
    BadWords().apply(Page("a", "text", language="en"), Counter())
    for unit in ("ass", "a", "anal ", "xass", "\U0001f595", "two girls one "):
        page = Page("a", unit * (10_000_000 // len(unit)), language="en")
        start = time.process_time()
        BadWords(filter_fraction=0.0).apply(page, Counter())
        assert time.process_time() - start < 20
