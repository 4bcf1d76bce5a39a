"""Pronoun resolution: the odd rows of WSC, DPR and WNLI."""

from typing import Any

import pytest

from t5x_like.text.benchmarks.pronouns import dpr_simple, wsc_marked_spans, wsc_simple
from t5x_like.text.benchmarks.wnli_pronouns import wnli_simple


def wsc(
    text: str, index: int, pronoun: str, *, span: str = "Ann", span_index: int = 0, label: int = 1
) -> dict[str, Any]:
    row = {"text": text, "span2_index": index, "span2_text": pronoun, "label": label, "idx": 0}
    return {**row, "span1_text": span, "span1_index": span_index}


@pytest.mark.parametrize(
    ("text", "index", "inputs"),
    [
        ("Ann saw X . She left X X now", 4, "wsc: Ann saw *She* . *She* left *She* X now"),
        ("Ann said it was She", 4, "wsc: Ann said it was *She* "),
        ("Ann  She left", 2, "wsc: Ann  *She* left"),
    ],
)
def test_every_x_between_spaces_is_taken_for_the_blank(text: str, index: int, inputs: str) -> None:
    assert wsc_simple(wsc(text, index, "She"))[0]["inputs"] == inputs


def test_the_two_rows_of_wsc_with_wrong_indices_are_put_right() -> None:
    pony = (
        "The boy continued to whip the pony , and eventually the pony threw him over. John laughed out quite loud. "
        '"Good for him," he said. '
    )
    assert wsc_simple(wsc(pony, 23, "him"))[0]["inputs"].endswith('loud. "Good for *him* ," he said.')
    pebble = (
        "When they had eventually calmed down a bit , and had gotten home, Mr. Farley put the magic pebble in an iron "
        "safe . Some day they might want to use it , but really for now, what more could they wish for?"
    )
    assert "might want to use *it* , but" in wsc_simple(wsc(pebble, 29, "it"))[0]["inputs"]


@pytest.mark.parametrize(
    ("index", "pronoun", "message"),
    [
        (0, "Ann", "span2_index must be > 0"),
        (-1, "she", "span2_index must be > 0"),
        (9, "she", "span2_index 9 is outside the text's 4 words"),
        (2, "he", "the word at span2_index 2 is 'she', not span2_text 'he'"),
    ],
)
def test_a_pronoun_that_is_not_where_it_should_be_is_refused(index: int, pronoun: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wsc_simple(wsc("Ann said she left.", index, pronoun))


def test_spans_are_patterns_in_the_marked_form() -> None:
    assert wsc_marked_spans(wsc("Ann (A) saw her .", 3, "her", span="A(nn|) "))[0]["inputs"].startswith(
        "wsc text: * Ann"
    )
    with pytest.raises(ValueError, match=r"the span '\(her' can't be looked for as a pattern"):
        wsc_marked_spans(wsc("Ann saw (her .", 2, "(her"))
    with pytest.raises(ValueError, match="the label 2 is outside the set: 0 False, 1 True"):
        wsc_marked_spans(wsc("Ann saw her .", 2, "her", label=2))


@pytest.mark.parametrize(
    ("pronoun", "marked"),
    [
        (r"\\", r" *\* "),
        (r"a\0b", " *a X b* "),
        (r"a\nb", " *a"),
        ("\\", " *"),
        (r"\\1", r" *\1* "),
        (r"\n\1", " X "),
    ],
)
def test_backslashes_of_a_pronoun_are_read_as_t5s_patterns_read_them(pronoun: str, marked: str) -> None:
    row = wsc(f"Ann saw {pronoun} go", 2, pronoun)
    assert wsc_simple(row)[0]["inputs"] == f"wsc: Ann saw{marked}go"


def test_backslashes_of_a_marked_span_are_too() -> None:
    result = wsc_marked_spans(wsc(r"Ann saw \ go", 2, r"\\\\"))[0]["inputs"]
    assert result == r"wsc text: * Ann * saw # \ # go"


def test_definite_pronouns_refuse_what_they_cannot_use() -> None:
    row = {"sentence": "Ann saw him, yes.", "pronoun": "him", "candidates": ["Ann", "Bo"], "label": 1}
    assert dpr_simple(row) == [{"inputs": "wsc: Ann saw *him*, yes.", "targets": "Bo"}]
    assert dpr_simple({**row, "candidates": [], "label": -1})[0]["targets"] == "<unk>"  # a question
    with pytest.raises(ValueError, match="the label 2 names none of the 2 candidates"):
        dpr_simple({**row, "label": 2})
    with pytest.raises(ValueError, match=r"the pronoun '\(him' can't be looked for"):
        dpr_simple({**row, "pronoun": "(him"})


def test_definite_pronouns_count_candidates_from_the_end_as_t5() -> None:
    row = {"sentence": "Ann saw him, yes.", "pronoun": "him", "candidates": ["Ann", "Bo"], "label": -1}
    assert dpr_simple(row)[0]["targets"] == "Bo"
    assert dpr_simple({**row, "label": -2})[0]["targets"] == "Ann"
    with pytest.raises(ValueError, match="the label -3 names none of the 2 candidates"):
        dpr_simple({**row, "label": -3})


def wnli(premise: str, hypothesis: str) -> dict[str, Any]:
    return wnli_simple({"sentence1": premise, "sentence2": hypothesis, "label": 1, "idx": 0})[0]


@pytest.mark.parametrize(
    ("premise", "hypothesis", "inputs", "targets"),
    [
        ("Al paid Ed after he won.", "Al won.", "wsc: Al paid Ed after *he* won.", "Al"),
        (
            "I love Ed's dog, and it loves me.",
            "Ed's dog loves me.",
            "wsc: I love Ed's dog, and *it* loves me.",
            "Ed's dog",
        ),
        ("Al took Ed and his hat fell.", "Al's hat fell.", "wsc: Al took Ed and *his* hat fell.", "Al"),
        ("It is here.", "Nothing else.", "wsc: *It* is here.", ""),
    ],
)
def test_wnlis_pronoun_is_the_one_whose_neighbours_agree(
    premise: str, hypothesis: str, inputs: str, targets: str
) -> None:
    result = wnli(premise, hypothesis)
    assert (result["inputs"], result["targets"]) == (inputs, targets)


@pytest.mark.parametrize(
    ("premise", "message"),
    [
        ("Ann left.", "sentence1 has none of the pronouns"),
        ("  it", "the pronoun can't be marked: there are two spaces"),
    ],
)
def test_wnli_rows_without_a_pronoun_to_mark_are_refused(premise: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wnli(premise, "Ann saw Bo")
