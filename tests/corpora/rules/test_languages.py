"""Pages are kept by language as in C4's reference, and with a fast identifier."""

import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.references.pages import languages
from benchmarks.references.reference import compare_all
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.language_fasttext import FastText
from t5x_like.corpora.rules.language_langdetect import LangDetect, _tables
from t5x_like.corpora.rules.languages import Languages
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.io.decompression import missing_library

ENGLISH = "The old harbour was built by fishermen in the nineteenth century. Bread is baked each morning."
FRENCH = (
    "Le vieux port a été construit par des pêcheurs au dix-neuvième siècle. Chaque matin, on cuit le pain."
)
CHINESE = "旧港口是十九世纪由渔民建造的。每天早上都会烤面包。冬天海湾有时会结冰。"


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").strip().split("\n")]


def verdict(rule: Languages, text: str) -> list[str]:
    counts: Counter[str] = Counter()
    outcome = rule.apply(Page("example.org", text), counts)
    return [outcome.reason if isinstance(outcome, Dropped) else "passed", *counts]


def language(rule: Languages, text: str) -> str | None:
    outcome = rule.apply(Page("example.org", text), Counter())
    return outcome.language if isinstance(outcome, Page) else None


def test_probabilities_are_the_reference_s(golden):
    assert compare_all(languages(golden / "c4" / "lang_and_badwords.json")) > 5


@pytest.fixture(scope="module")
def original():
    """langdetect itself, with its languages in the order in which ours has them."""
    from langdetect import detector_factory
    from langdetect.lang_detect_exception import LangDetectException

    names = sorted(name for name in os.listdir(detector_factory.PROFILES_DIRECTORY) if "__" not in name)
    factory = detector_factory.DetectorFactory()
    factory.load_json_profile(
        [Path(detector_factory.PROFILES_DIRECTORY, name).read_text(encoding="utf-8") for name in names]
    )

    def detect(text: str, seed: int = 0) -> list[tuple[str, float]] | None:
        factory.set_seed(seed)
        detector = factory.create()
        detector.append(text)
        try:
            return [(result.lang, result.prob) for result in detector.get_probabilities()]
        except LangDetectException:
            return None

    return detect


PIECES = [
    *(
        "http://a.example/b?c=d ",
        "me@example.org ",
        "A@b",
        "WoRLD ",
        "EUR",
        "\n",
        "   ",
        "12",
        "[x]",
        "é",
        "«",
        "\xa0",
    ),
    *(
        "ế",
        "e\u0302",
        "a\u0301",
        "Ă\u0323",
        "ș",
        "ی",
        "はな",
        "カ",
        "한국",
        "鷗",
        "\U0001f600",
        "\U00010400\U00010401",
    ),
    *("\ud800", "ß", "И", "й", "ไทย", "zu ", "il ", "the ", "que ", "och ", "_", "~"),
]


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=40),
    repeats=st.integers(1, 3),
    seed=st.integers(0, 3),
)
def test_every_probability_is_langdetect_s_bit_for_bit(original, pieces, repeats, seed):
    text = "".join(pieces) * repeats
    assert LangDetect(seed=seed).predict(text) == original(text, seed)


@pytest.mark.parametrize(
    "text",
    [
        ENGLISH * 200 + FRENCH * 200,  # only the first 10,000 characters count
        "http://a.example/bcdefghijklmnop?q=r " * 2_000
        + FRENCH * 100
        + ENGLISH * 100,  # which is after the addresses
        "somebody@example.org " * 3_000 + CHINESE * 500,
        "x@" * 9_000 + "e\u0301" * 9_000 + ENGLISH,
        "a" * 30_000,
    ],
)
def test_the_same_part_of_long_texts_is_read(original, text):
    assert LangDetect().predict(text) == original(text)


def test_ten_megabytes_take_no_longer_than_their_beginning():
    LangDetect().predict(ENGLISH)
    for unit in ("a", "a.b", "http://", "me@example.org ", "e\u0301", "\U0001f600"):
        text = unit * (10_000_000 // len(unit))
        start = time.process_time()
        LangDetect().predict(text)
        FastText().predict(text)
        assert time.process_time() - start < 5


def test_chinese_includes_all_its_suffixes():
    rule = Languages(keep=("zh", "fr"))
    assert (rule.NAME, language(rule, CHINESE), language(rule, FRENCH)) == ("language-filter", "zh-cn", "fr")
    assert verdict(rule, FRENCH) == ["passed", "passed:fr"]
    assert verdict(rule, ENGLISH) == ["filtered:ignored_language", "filtered:ignored_language-en"]
    assert Languages().NAME == "english-filter"


@pytest.mark.parametrize("identifier", [LangDetect(), FastText()])
def test_all_pages_may_be_kept_and_named(identifier):
    rule = Languages(keep=None, identifier=identifier, min_probability=0.6)
    assert [language(rule, text) for text in (ENGLISH, FRENCH, "  \n")] == ["en", "fr", "und"]
    assert verdict(rule, "\n\t") == ["passed", "passed:und"]


def test_the_fast_identifier_reads_pages_of_any_characters():
    rule = Languages(identifier=FastText(), min_probability=0.6)
    assert verdict(rule, ENGLISH.replace(" ", "\r\n")) == ["passed"]
    assert verdict(rule, f"\ud800 {ENGLISH}") == ["passed"]
    assert verdict(rule, f"\0 {ENGLISH}\0") == ["passed"]
    assert verdict(rule, FRENCH) == ["filtered:ignored_language", "filtered:ignored_language-fr"]
    assert verdict(rule, " \n ") == ["filtered:no_words"]


def test_invalid_settings_are_refused():
    with pytest.raises(ValueError, match=r"keep is 'en'; give a tuple of codes"):
        Languages(keep="en")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"keep is \(\); give a tuple"):
        Languages(keep=())
    with pytest.raises(ValueError, match=r"min_probability is 99; give 0 to 1"):
        Languages(min_probability=99)
    with pytest.raises(ValueError, match="max_characters is 0"):
        FastText(max_characters=0)
    error = missing_library("langdetect", ImportError("No module named 'langdetect'"))
    assert str(error).endswith("No module named 'langdetect'; pip install 't5x-like[corpora]'")


def test_tables_are_loaded_once():
    assert _tables() is _tables()


def test_a_long_page_is_read_in_pieces_from_its_beginning_to_its_end():
    french = "Le chat est assis sur la chaise de la cuisine et regarde les oiseaux. " * 20
    text = "The people of this town walked to the river that morning. " * 6 + french
    assert FastText(max_characters=100, pieces=1).predict(text)[0].language == "en"
    assert FastText(max_characters=200, pieces=5).predict(text)[0].language == "fr"
    assert FastText().predict(" " * 5_000 + "Une page de peu de mots.")[0].language == "fr"
    short = "Four words are here."
    assert FastText().predict(short) == FastText(max_characters=10_000, pieces=1).predict(short)


@pytest.mark.parametrize("pieces", [0, 401])
def test_pieces_out_of_range_are_refused(pieces):
    with pytest.raises(ValueError, match=f"pieces is {pieces}; give 1 to max_characters"):
        FastText(pieces=pieces)
