import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.pretrained.head_classes import (
    classes_at,
    classes_in,
    fields_of_classes,
    order_by_name,
    write_classes,
)

WORDS = st.lists(st.text("abc", min_size=1), min_size=1, max_size=5, unique=True)


@pytest.mark.parametrize(
    ("fields", "classes"),
    [
        ({"id2label": {"1": "NEUTRAL", "0": "CONTRADICTION"}}, ("CONTRADICTION", "NEUTRAL")),
        ({"label2id": {"b": 1, "a": 0}}, ("a", "b")),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, ()),
        ({"id2label": {"0": 0, "1": 1}}, ()),
        ({"id2label": {"0": "a", "2": "b"}}, ()),
        ({}, ()),
    ],
)
def test_a_configuration_names_classes_or_says_nothing_of_them(fields, classes):
    assert classes_in(fields) == classes


@given(words=WORDS, data=st.data())
def test_classes_are_found_by_name_in_any_order(words, data):
    head_classes = data.draw(st.permutations(words))
    order = order_by_name(head_classes, words)
    assert order is not None
    assert [head_classes[place] for place in order] == words
    assert classes_in(fields_of_classes(words)) == tuple(words)


@pytest.mark.parametrize("head_classes", [("yes", "no"), ("entailment",), ("entailment", "Entailment")])
def test_other_names_have_no_order(head_classes):
    assert order_by_name(head_classes, ("entailment", "not_entailment")) is None
    assert order_by_name((" Not-Entailment", "ENTAILMENT"), ("entailment", "not_entailment")) == (1, 0)


def test_a_run_keeps_its_classes_in_a_file_and_another_directory_in_its_configuration(tmp_path):
    write_classes(tmp_path, ("b", "a"))
    assert classes_at(tmp_path) == ("b", "a")
    published, number = tmp_path / "published", tmp_path / "number"
    for home in (published, number):
        home.mkdir()
        write_classes(home, ())
    (published / "config.json").write_text(json.dumps(fields_of_classes(("c", "d"))))
    assert classes_at(published) == ("c", "d")
    assert classes_at(number) == ()


def test_classes_may_be_a_list() -> None:
    assert classes_in({"id2label": ["yes", "no"]}) == ("yes", "no")
