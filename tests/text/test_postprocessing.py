import numpy as np
import pytest

from benchmarks.references.metrics import postprocessors
from benchmarks.references.reference import compare_all
from t5x_like.text import postprocessing


def test_answers_are_read_as_t5_reads_them(golden):
    assert compare_all(postprocessors(golden / "metrics" / "postprocessors.jsonl")) > 300


def test_targets_of_tensorflow_are_read_too():
    example = {"answers": [b"Zo\xc3\xab"], "idx/passage": 3, "idx/query": 4}
    assert postprocessing.record("x", example, is_target=True) == {"value": ["Zoë"], "group": (3, 4)}
    hash(postprocessing.record("x", example, is_target=True)["group"])  # T5's own metrics need that
    several = postprocessing.multirc("True", {"idx/question": np.array([1, 2])}, is_target=True)
    assert several == {"value": 1, "group": [1, 2]}


def test_missing_features_of_a_target_are_named():
    with pytest.raises(ValueError, match="must have 'answers'"):
        postprocessing.qa("x", {"id": "1"}, is_target=True)


def test_settings_have_t5s_positions_and_other_arguments_are_ignored():
    assert postprocessing.string_label_to_class_id("x", ["a", "b"], -2) == -2
    assert postprocessing.string_label_to_class_id("b", ["a", "b"], example={}, is_target=True, more=1) == 1
    assert postprocessing.string_to_float("x", 7.0) == 7.0
    assert postprocessing.string_to_float("1.5", example={}, more=1) == 1.5
    assert postprocessing.lower_text("X", example={}, more=1) == "x"


@pytest.mark.parametrize(
    ("answer", "referent", "expected"),
    [
        ("the  dog", "big dog", 0),  # the empty word between the spaces is none of the referent's
        ("the  dog", "dog", 1),
        ("cat the  dog", "the", 1),  # nothing is left of the referent but an empty word, which the answer has
        ("the  a", "dog", -1),
        (b"the dog", b"Dog", 1),
    ],
)
def test_spaces_in_a_row_count_as_in_t5(answer, referent, expected):
    wsc_simple = postprocessing.wsc_simple(answer, example={"targets_pretokenized": referent})
    assert wsc_simple == expected


def test_ranked_answers_have_the_features_of_their_metric():
    example = {"idx": np.array([3, 1]), "is_correct": True, "targets": np.array([5, 6, 1]), "name": "x"}
    assert postprocessing.rank_classification(-1.5, example) == -1.5
    assert postprocessing.rank_classification(-1.5, example, is_target=True) == ((3, 1), True, 1.0, 3)
    scores = postprocessing.rank_classification(
        -1.5, example | {"weight": 0.5}, is_target=True, passthrough_feature_keys=["name"]
    )
    assert scores == ((3, 1), True, 0.5, 3, "x")
    with pytest.raises(ValueError, match="must have 'is_correct'"):
        postprocessing.rank_classification(-1.5, {"idx": [0, 0]}, is_target=True)
