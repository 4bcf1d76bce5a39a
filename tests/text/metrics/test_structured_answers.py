"""Metrics of decaNLP's tasks whose answers have a structure, by hand."""

import pytest

from t5x_like.text.metrics import joint_goal_em, logical_form_em, relation_f1


def test_relations_are_scored_over_the_corpus_as_sets_of_words() -> None:
    targets = ["the mill", "unanswerable", "Ann, Bo", "unanswerable", "1702"]
    guesses = ["Mill!", "unanswerable", "bo and ann", "a mill", "unanswerable"]
    # Right: 2 of the 3 that were answered, and of the 3 that have an answer.
    assert relation_f1(targets, guesses) == {
        "f1": pytest.approx(200 / 3),
        "precision": pytest.approx(200 / 3),
        "recall": pytest.approx(200 / 3),
    }
    assert relation_f1(targets[:1], ["unanswerable"]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0}


def test_a_mistake_in_the_state_of_a_dialogue_counts_in_later_turns() -> None:
    changes = ["food: thai;", "area: north; phone", "None", "food: thai;"]
    places = [(0, 0), (0, 1), (0, 2), (1, 0)]
    targets = [
        {"dialogue": dialogue, "turn": turn, "value": change}
        for (dialogue, turn), change in zip(places, changes, strict=True)
    ]
    right = [{"value": change} for change in changes]
    all_right = {"joint_goal_em": 100.0, "turn_goal_em": 100.0, "turn_request_em": 100.0}
    assert joint_goal_em(targets, right) == all_right
    assert joint_goal_em(targets[::-1], right[::-1]) == all_right, "turns are put in order"
    wrong_food = [{"value": "food: chinese;"}, *right[1:]]
    assert joint_goal_em(targets, wrong_food) == {
        "joint_goal_em": 25.0,  # the next two turns keep the wrong food
        "turn_goal_em": 75.0,
        "turn_request_em": 100.0,
    }
    no_request = [right[0], {"value": "area: north;"}, {"value": "nothing;"}, right[3]]
    assert joint_goal_em(targets, no_request) == all_right | {"turn_request_em": 75.0}
    in_other_order = [{"value": "x: y, food: thai;"}]
    assert joint_goal_em([{**targets[0], "value": "food: thai, x: y;"}], in_other_order) == all_right


def test_queries_are_equal_up_to_case_and_spaces() -> None:
    targets = ["SELECT COUNT Name FROM table WHERE Age > 3", "SELECT Name FROM table"]
    assert logical_form_em(
        targets, ["select count  name from table where age > 3", "SELECT Age FROM table"]
    ) == {"logical_form_em": 50.0}
