import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from t5x_like.text import metrics
from t5x_like.text.metrics.bootstrap import intervals, units_of


def coin_rows(number, share, seed=0):
    raw = np.random.Philox(key=seed).random_raw(number) / 2**64
    return [1] * number, (raw < share).astype(int).tolist()


def test_the_interval_of_an_accuracy_is_that_of_a_share():
    targets, predictions = coin_rows(1000, 0.8)
    score = metrics.accuracy(targets, predictions)["accuracy"]
    result = intervals(metrics.accuracy, targets, predictions)["accuracy"]
    half = 196 * np.sqrt(score / 100 * (1 - score / 100) / 1000)
    assert result is not None
    assert result.low == pytest.approx(score - half, abs=0.4)
    assert result.high == pytest.approx(score + half, abs=0.4)
    assert (result.confidence, result.resamples, result.units) == (0.95, 1000, 1000)


def test_the_same_rows_have_the_same_interval_and_others_another():
    rows = coin_rows(50, 0.6)
    assert intervals(metrics.accuracy, *rows) == intervals(metrics.accuracy, *rows)
    assert intervals(metrics.accuracy, *rows) != intervals(metrics.accuracy, *coin_rows(50, 0.6, seed=1))


def test_a_metric_that_is_no_mean_of_rows_is_computed_on_every_draw():
    targets = [0, 1] * 40
    predictions = [0, 1, 0, 0] * 20
    for metric in (metrics.f1_score_with_invalid, metrics.matthews_corrcoef, metrics.pearson_corrcoef):
        (result,) = intervals(metric, targets, predictions, resamples=200).values()
        (score,) = metric(targets, predictions).values()
        assert result is not None
        assert result.low < score < result.high


def test_answers_to_one_question_are_drawn_together():
    targets = [{"value": row % 2, "group": row // 4} for row in range(40)]
    predictions = [{"value": 1} for _ in range(40)]
    assert len(units_of(targets)) == 10
    exact = metrics.mean_group_metric(metrics.all_match)
    assert intervals(exact, targets, predictions)["exact_match"] == (0.0, 0.0, 0.95, 1000, 10)
    f1 = intervals(metrics.multirc_f1_over_all_answers, targets, predictions)["f1"]
    assert f1 is not None
    assert f1.low == pytest.approx(
        f1.high
    )  # every group has two of each class, so every draw scores the same


def test_a_question_drawn_twice_counts_twice():
    targets = [{"value": 1, "group": 0}, {"value": 1, "group": 1}]
    predictions = [{"value": 1}, {"value": 0}]
    result = intervals(metrics.mean_group_metric(metrics.all_match), targets, predictions)["exact_match"]
    assert result is not None
    assert (result.low, result.high) == (0.0, 100.0)


def test_a_score_that_is_mostly_no_number_has_no_interval():
    assert intervals(metrics.pearson_corrcoef, [1.0, 2.0, 3.0], [1.0, 1.0, 1.0]) == {"pearson_corrcoef": None}


def test_bleu_is_added_up_from_sentences():
    targets = ["the cat sat on the mat today", "a small dog barked at me", "it is raining in the north"] * 4
    predictions = [
        "the cat sat on a mat today",
        "a small dog barked at him",
        "it is raining in the south",
    ] * 4
    result = intervals(metrics.bleu, targets, predictions, resamples=100)["bleu"]
    score = metrics.bleu(targets, predictions)["bleu"]
    assert result is not None
    assert result.low < score < result.high
    (same,) = intervals(metrics.bleu, targets[:1] * 3, predictions[:1] * 3, resamples=10).values()
    assert same is not None
    assert same.low == pytest.approx(metrics.bleu(targets[:1] * 3, predictions[:1] * 3)["bleu"])


def test_thousands_of_answers_take_seconds():
    texts = [f"answer number {row} of many" for row in range(3000)]
    start = time.monotonic()
    intervals(metrics.squad, [[text] for text in texts], texts[1:] + texts[:1])
    assert time.monotonic() - start < 20


def test_settings_are_checked():
    with pytest.raises(ValueError, match="at least 2"):
        intervals(metrics.accuracy, [1], [1], resamples=1)


def test_intervals_of_chunks_are_those_of_the_metric_on_each_draw() -> None:
    truth = [["B-LOC", "I-LOC"], ["O", "B-PER"], ["B-LOC", "O"], ["O", "O"]]
    guess = [["B-LOC", "I-LOC"], ["O", "B-LOC"], ["O", "O"], ["B-PER", "O"]]
    counted = intervals(metrics.chunk_f1, truth, guess, resamples=50)
    scored = intervals(lambda *rows: metrics.chunk_f1(*rows), truth, guess, resamples=50)
    assert counted == scored
    assert counted["f1"] is not None
    assert counted["f1"].low < counted["f1"].high


def test_scores_of_groups_of_rows_are_means_of_those_that_are_drawn() -> None:
    groups = [["all", ("first", "second")[row % 3 > 0]] for row in range(2000)]
    differences = [float(row % 5 - 1) for row in range(2000)]
    start = time.monotonic()
    fast = intervals(metrics.preference_accuracy, groups, differences, resamples=1000)
    assert time.monotonic() - start < 5
    assert {name: interval and interval.low < 70 < interval.high for name, interval in fast.items()} == (
        dict.fromkeys(("accuracy", "all_accuracy", "first_accuracy", "second_accuracy"), True)
    )

    def not_recognized(targets: Sequence[Any], predictions: Sequence[Any]) -> dict[str, Any]:
        scores = metrics.preference_accuracy(targets, predictions)
        return scores | {"accuracy": scores["accuracy"] + (len(targets) == 1)}

    slow = intervals(not_recognized, groups, differences, resamples=20)
    fast = intervals(metrics.preference_accuracy, groups, differences, resamples=20)
    assert slow == {name: pytest.approx(interval) for name, interval in fast.items()}
