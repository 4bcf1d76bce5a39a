"""What T5's metrics do where one would not guess it. The values are those that t5 0.9.4 gives."""

import math

import numpy as np
import pytest

from t5x_like.text import metrics

SUMMARIES, WRITTEN = ["the cats were running . a dog sat"], ["the cat ran . dogs sat"]
# Two examples of two answers; rows may come in any order.
RANKED = [((1, 0), True, 1.0, 4), ((0, 1), True, 1.0, 1), ((0, 0), False, 1.0, 2), ((1, 1), False, 1.0, 1)]
LIKELIHOODS = [-3.0, -1.5, -2.0, -2.5]


def test_other_kinds_of_rouge_can_be_chosen():
    for rouge in (metrics.rouge, metrics.rouge_mean):
        result = rouge(SUMMARIES, WRITTEN, score_keys=("rouge3", "rougeL"))
        assert result == {"rouge3": 0.0, "rougeL": pytest.approx(100 / 3)}
        stemmed = rouge(SUMMARIES, WRITTEN, score_keys=["rouge1"], use_stemmer=True)
        assert stemmed == {"rouge1": pytest.approx(200 / 3)}


def test_nothing_has_no_score_but_what_t5_gives_it():
    for metric in (metrics.squad, metrics.trivia_qa, metrics.span_squad, metrics.sequence_accuracy):
        assert all(map(math.isnan, metric([], []).values()))
    assert math.isnan(metrics.spearman_corrcoef([], [])["spearman_corrcoef"])
    assert metrics.all_match([], []) == {"exact_match": 100.0}
    assert metrics.mean_group_metric(metrics.all_match)([], []) == {}
    with pytest.raises(ValueError, match="no examples to score"):
        metrics.deduplicate_metric(metrics.accuracy)([], [])


def test_all_match_compares_as_numpy_does():
    assert metrics.all_match([0, 1], [0, 1, 1]) == {"exact_match": 0.0}
    assert metrics.all_match(["a"], np.array(["a"])) == {"exact_match": 100.0}
    assert metrics.all_match([math.nan], [math.nan]) == {"exact_match": 0.0}
    assert metrics.all_match([[1], [1, 2]], [[1], [1, 2]]) == {"exact_match": 0.0}  # no array at all


def test_arrays_are_right_as_a_whole():
    truth, guess = np.array([[1, 0], [0, 1]]), np.array([[1, 0], [1, 1]])
    assert (
        metrics.accuracy(truth, guess)
        == metrics.accuracy(truth.tolist(), guess.tolist())
        == {"accuracy": 50.0}
    )


def test_scores_of_each_group_can_be_had():
    targets = [{"value": 1, "group": (0, 1)}, {"value": 0, "group": (0, 1)}, {"value": 1, "group": (2, 0)}]
    predictions = [{"value": 1}, {"value": 1}, {"value": 1}]
    result = metrics.mean_group_metric(metrics.accuracy, return_subgroup_scores=True)(targets, predictions)
    assert result == {"accuracy": 75.0, "(0, 1)-accuracy": 50.0, "(2, 0)-accuracy": 100.0}


def test_a_metric_may_give_some_groups_other_scores():
    def by_size(targets, predictions):
        return {f"of_{len(targets)}": float(targets == predictions)}

    targets = [{"value": 1, "group": 0}, {"value": 0, "group": 0}, {"value": 1, "group": 1}]
    result = metrics.mean_group_metric(by_size)(targets, [{"value": 1}, {"value": 0}, {"value": 0}])
    assert result == {"of_2": 1.0, "of_1": 0.0}


def test_macro_f1_weighs_rows_and_may_count_absent_classes():
    truth, guess = [0, 0, 1], [0, 1, 1]
    assert metrics.mean_multiclass_f1(3)(truth, guess)["mean_3class_f1"] == pytest.approx(400 / 9)
    counted = metrics.mean_multiclass_f1(3, zero_division=1)(truth, guess)["mean_3class_f1"]
    assert counted == pytest.approx(700 / 9)
    left_out = metrics.mean_multiclass_f1(3, zero_division=math.nan)(truth, guess)["mean_3class_f1"]
    assert left_out == pytest.approx(200 / 3)
    weighed = metrics.mean_multiclass_f1(2, sample_weight=[1.0, 0.5, 2.0])(truth, guess)["mean_2class_f1"]
    assert weighed == pytest.approx(100 * (2 / 2.5 + 4 / 4.5) / 2)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_numbers_of_any_size_correlate(scale):
    truth, guess = [0.0, 1.0, 2.0, 4.0], [1.0, 3.0, 2.0, 5.0]
    scaled = [number * scale for number in guess]
    correlation = metrics.pearson_corrcoef(truth, scaled)["pearson_corrcoef"]
    assert correlation == pytest.approx(metrics.pearson_corrcoef(truth, guess)["pearson_corrcoef"], rel=1e-9)


def test_two_numbers_correlate_wholly():
    near = [100_000_000.00000086, 100_000_000.0000004], [100_000_000.00000033, 100_000_000.00000037]
    assert metrics.pearson_corrcoef(*near) == {"pearson_corrcoef": -100.0}
    assert metrics.pearson_corrcoef([1, 2], [0.3, 0.7]) == {"pearson_corrcoef": 100.0}


def test_answers_of_which_nothing_is_left_are_equal_in_coqa_alone():
    assert metrics.coqa_f1([["the"], ["a cat", "cat sat"]], ["a", "The cat!"]) == {"f1": 100.0}
    assert metrics.coqa_f1([["big cat"], ["the"]], ["cat", "dog"]) == {"f1": pytest.approx(100 / 3)}
    assert metrics.squad([["the"]], ["a"]) == {"em": 100.0, "f1": 0.0}


def test_edits_are_counted_in_words_between_signs():
    edit_distance = metrics.edit_distance(["A cat, sat", "b"], ["a cat sat", "B c d"])
    assert edit_distance == {
        "min_edit": 1,
        "max_edit": 2,
        "mean_edit": 1.5,
        "median_edit": 1.5,
        "sum_edit": 3,
    }
    assert metrics.edit_distance(["B"], ["b"], lower=False)["sum_edit"] == 1


def test_areas_lie_under_curves_of_scores():
    assert metrics.auc([0, 1, 1, 0], [0.1, 0.9, 0.3, 0.4]) == {
        "auc-roc": pytest.approx(0.75),
        "auc-pr": pytest.approx(0.8333333333333333),
    }
    from_half_on = metrics.score_auc([0.2, 0.5, 0.8, 0.1], [0.1, 0.9, 0.3, 0.4], targets_threshold=0.5)
    assert from_half_on == metrics.auc([0, 1, 1, 0], [0.1, 0.9, 0.3, 0.4])


def test_the_likeliest_answer_is_the_predicted_one():
    assert metrics.rank_classification(RANKED, LIKELIHOODS) == {"accuracy": 50.0}
    scores = metrics.rank_classification(RANKED, LIKELIHOODS, num_classes=2)
    assert scores == pytest.approx({"accuracy": 50.0, "f1": 200 / 3, "auc-roc": 50.0, "auc-pr": 50.0})
    scores = metrics.rank_classification(RANKED, LIKELIHOODS, num_classes=2, normalize_by_target_length=True)
    assert scores == pytest.approx({"accuracy": 50.0, "f1": 0.0, "auc-roc": 100.0, "auc-pr": 100.0})


def test_ranking_three_answers_gives_macro_f1_and_any_of_several_right_ones_will_do():
    three = [((0, place), place == 2, 1.0, 1) for place in range(3)]
    scores = metrics.rank_classification(three, [-3.0, -2.0, -1.0], num_classes=3)
    assert scores == {"accuracy": 100.0, "mean_3class_f1": pytest.approx(100 / 3)}
    several = [((0, place), place > 0, 1.0, 1) for place in range(3)]
    assert metrics.rank_classification(several, [-3.0, -1.0, -2.0], num_classes=3) == {"accuracy": 100.0}


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        ([((0, 0), True, 1.0)], {}, "must have 4 parts"),
        ([(0, True, 1.0, 1)], {}, "must have 2 numbers"),
        ([((0, 0), True, 1.0, 1)], {"num_classes": 2}, "1 answers are not 2 for each example"),
        ([((0, 0), True, 0.0, 1)], {}, "weights of all targets are 0"),
    ],
)
def test_rows_that_cannot_be_ranked_are_refused(rows, settings, message):
    with pytest.raises(ValueError, match=message):
        metrics.rank_classification(rows, [-1.0] * len(rows), **settings)


def test_any_score_of_scikit_learn_is_a_metric():
    kappa = metrics.sklearn_metrics_wrapper("cohen_kappa_score", "kappa", lambda score: 100 * score)
    assert kappa.__name__ == "kappa"
    assert kappa([0, 1, 1, 0], [0, 1, 0, 0]) == {"kappa": pytest.approx(50.0)}
    assert metrics.sklearn_metrics_wrapper("f1_score", average="micro")([0, 2], [0, 1]) == {"f1_score": 0.5}
    with pytest.raises(ValueError, match="does not have: accurate"):
        metrics.sklearn_metrics_wrapper("accurate")
