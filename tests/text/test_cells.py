"""Cells of CSV and TSV that hold lists, as JSON and Python write them."""

from typing import Any

import pytest

from t5x_like.text.cells import parsed_cell
from t5x_like.text.heads import TokenClassification


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ('["the", "king"]', ["the", "king"]),
        ("['the', \"king's\"]", ["the", "king's"]),
        ("{'a': 1}", {"a": 1}),
        ("the king", None),
        ("['the' 'king']", None),
        ("['the'\n 'king']", None),
        ("[sic]", None),
    ],
)
def test_a_list_without_commas_is_no_list_whose_words_are_joined(cell: str, value: Any) -> None:
    assert parsed_cell(cell) == value


@pytest.mark.parametrize("cell", ["the king", ["the", "king"], '["the", "king"]', "['the', 'king']"])
def test_words_are_the_same_in_every_form_of_a_cell(cell: Any) -> None:
    head = TokenClassification(classes=("O", "B"))
    read = head.read({"tokens": cell, "tags": "[0, 1]"})
    assert (read.words, read.tags) == (("the", "king"), (0, 1))
    assert head.read({"tokens": "[1]"}).words == ("[1]",)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (["the", None], "column 'tokens' holds null where a word is needed"),
        ([["the"], "king"], "where a word is needed"),
        ({"the": "king"}, r"column 'tokens' holds \{"),
        ("['the' 'king']", "neither JSON nor Python's"),
    ],
)
def test_what_is_no_list_of_words_is_refused(cell: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TokenClassification(classes=("O", "B")).read({"tokens": cell})
