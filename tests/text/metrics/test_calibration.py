"""Probabilities of preferences are compared with what happened."""

import math

import pytest

from t5x_like.text.heads import RankedAnswers
from t5x_like.text.metrics.calibration import pair_calibration


def test_pairs_are_counted_in_the_bin_of_the_preferred_answers_probability() -> None:
    odds = math.log(0.72 / 0.28)  # a difference of rewards whose sigmoid is 72 %
    calibration = pair_calibration([odds, odds, odds, -odds, 0.0, 100.0, math.nan])
    assert (calibration["pairs"], calibration["accuracy"]) == (6, pytest.approx(400 / 6))
    bins = {each["low"]: each for each in calibration["bins"] if each["pairs"]}
    assert {low: each["pairs"] for low, each in bins.items()} == {50: 1, 70: 4, 95: 1}
    assert bins[70]["predicted"] == pytest.approx(72)
    assert bins[70]["observed"] == pytest.approx(75)
    assert bins[50]["observed"] == 0  # equal rewards prefer nothing
    assert calibration["error"] == pytest.approx((4 * 3 + 1 * 50 + 0) / 6)


def test_without_pairs_there_is_no_calibration() -> None:
    calibration = pair_calibration([math.nan])
    assert (calibration["pairs"], calibration["accuracy"], calibration["error"]) == (0, None, None)
    assert len(calibration["bins"]) == 10


def test_all_pairs_of_ranked_answers_count_and_the_longest_answer_is_the_baseline() -> None:
    ranks = RankedAnswers(max_answers=3)
    rows = [{"rewards": [3.0, 1.0, 2.0]}, {"rewards": [1.0, 2.0]}, {"rewards": [None, 2.0]}]
    calibration = ranks.further_scores(rows)["calibration"]
    assert (calibration["pairs"], calibration["accuracy"]) == (4, 50.0)
    texts = [["long answer", "short", "answer"], ["same", "size"]]
    read = [ranks.read({"inputs": "?", "answers": answers}) for answers in texts]
    assert ranks.baseline_answers(read, ()) == [0, 1]
