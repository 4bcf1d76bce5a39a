import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.references.metrics import normalized_answers, scores
from benchmarks.references.reference import compare_all
from t5x_like.text import metrics
from t5x_like.text.metrics import (
    baselines,
    classification,
    correlation,
    generation_metrics,
)
from t5x_like.text.metrics.by_name import LOWER_IS_BETTER, METRIC_NAMES, metric_function

COMPOSED = {
    "mean_3class_f1": metrics.mean_multiclass_f1(3),
    "mean_group_metric(all_match)": metrics.mean_group_metric(metrics.all_match),
    "deduplicate_metric(squad)": metrics.deduplicate_metric(metrics.squad),
}


def test_scores_are_t5s(golden):
    assert compare_all(scores(golden / "metrics" / "metrics.jsonl")) == 147


def test_composed_metrics_are_named_as_they_are_written():
    assert metrics.mean_multiclass_f1(3).__name__ == "mean_multiclass_f1(3)"
    assert [COMPOSED[name].__name__ for name in list(COMPOSED)[1:]] == list(COMPOSED)[1:]


def test_answers_are_normalized_as_t5_does(golden):
    assert compare_all(normalized_answers(golden / "metrics" / "qa_normalize.json")) > 5


def test_classes_are_read_from_their_words():
    f1 = metric_function("f1", ("no", "yes"))
    assert f1.__name__ == "f1"
    assert f1(["yes", "no", "yes"], ["yes", "yes", "maybe"]) == classification.f1_score_with_invalid(
        [1, 0, 1], [1, 1, -1]
    )
    assert metric_function("macro_f1", "abc")(["a", "b"], ["a", "c"]) == {
        "mean_3class_f1": pytest.approx(100 / 3)
    }


def test_numbers_that_cannot_be_read_count_as_minus_one():
    metric = metric_function("pearson_corrcoef")
    assert metric(["1.0", "2.0", "3"], ["1", "nan", "three"]) == correlation.pearson_corrcoef(
        [1, 2, 3], [1, -1, -1]
    )


@pytest.mark.parametrize("number", [0.1, 2.6, 4.4])
def test_the_same_answer_everywhere_correlates_with_nothing(number):
    truth = [0.0, 1.2, 2.6, 4.8, 5.0, 0.0, 3.2]
    for metric in (metrics.pearson_corrcoef, metrics.spearman_corrcoef):
        for pair in ((truth, [number] * 7), ([number] * 7, truth)):
            assert all(map(math.isnan, metric(*pair).values()))


def test_an_answer_that_is_no_number_leaves_no_correlation():
    for metric in (metrics.pearson_corrcoef, metrics.spearman_corrcoef):
        assert all(map(math.isnan, metric([1.0, 2.0, 3.0], [1.0, math.nan, 2.0]).values()))
    infinite = [1.0, 2.0, math.inf]  # has no mean, but a rank
    assert math.isnan(metrics.pearson_corrcoef([1.0, 2.0, 3.0], infinite)["pearson_corrcoef"])
    assert metrics.spearman_corrcoef([1.0, 2.0, 3.0], infinite)["spearman_corrcoef"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("places", "exact"),
    [("start: 1 end: 2", 100), ("start 1_0 end 1_1", 0), ("start: ١ end: ٢", 100), ("start: ² end: 3", 0)],
)
def test_places_are_read_as_python_reads_numbers(places, exact):
    target = {"answers": ["b c"], "context": "a, b; c"}
    assert metrics.span_squad([target], [places])["em"] == exact
    ten = {"answers": ["k l"], "context": "a b c d e f g h i j k l m"}
    assert metrics.span_squad([ten], ["start 1_0 end 1_1"])["em"] == 100


def test_another_tokenizer_of_bleu_can_be_chosen():
    assert metrics.bleu(["a b c d e-f"], ["a b c d e - f"], tokenizer="13a")["bleu"] < 90
    assert metrics.bleu(["a b c d e-f"], ["a b c d e - f"])["bleu"] == pytest.approx(100)


@pytest.mark.parametrize("name", METRIC_NAMES)
def test_perfect_predictions_score_best(name):
    answers = (
        ["1.0", "2.0", "1.0 2.0 3.0 4.0 5.0", "2.0"] if "corrcoef" not in name else ["1.0", "2.0", "2.0"]
    )
    scores = metric_function(name, ("1.0", "2.0"))(answers, answers)
    best = 0.0 if name in LOWER_IS_BETTER else 100.0
    assert all(score == pytest.approx(best) for score in scores.values())


def test_a_misspelt_metric_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'accuracy'"):
        metric_function("accurate")
    with pytest.raises(ValueError, match="needs the classes"):
        metric_function("f1")
    with pytest.raises(ValueError, match="use 'macro_f1'"):
        metric_function("f1", ("a", "b", "c"))


def test_a_question_without_answers_and_no_rows_at_all_are_named():
    for metric in (metrics.squad, metrics.trivia_qa, metrics.coqa, metrics.coqa_f1, metrics.cmrc):
        with pytest.raises(ValueError, match=r"question 1 .* has no right answer; give ''"):
            metric([["a"], []], ["a", ""])
    for rows in ([], [[]], [[], []]):
        with pytest.raises(ValueError, match="no examples to score"):
            metrics.bleu(rows, [])
    with pytest.raises(ValueError, match="2 predictions for 1 targets"):
        metrics.bleu([["a", "b"], ["a"]], ["a", "b"])


def test_rouge_warns_of_references_in_other_letters(caplog):
    thai = "สวัสดี"
    assert metrics.rouge_mean([thai, "a b"], [thai, "a b"]) == pytest.approx(
        {"rouge1": 50.0, "rouge2": 50.0, "rougeLsum": 50.0}
    )
    assert "1 of 2 references have none of them and score 0" in caplog.text
    caplog.clear()
    metrics.rouge_mean(["é a", "...", ["x", "y"]], ["é", ".", "x"])
    assert not caplog.records


def test_scoring_the_wrong_number_of_predictions_is_refused():
    with pytest.raises(ValueError, match="1 predictions for 2 targets"):
        metric_function("accuracy")(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="no examples"):
        metric_function("accuracy")([], [])


def test_token_error_rate_counts_edits_over_target_tokens():
    targets, predictions = ["M AY G R EY", "K AE T"], ["M AY G EY", "K AE T S"]
    assert generation_metrics.token_error_rate(targets, predictions) == {
        "token_error_rate": pytest.approx(25.0)
    }
    assert math.isnan(generation_metrics.token_error_rate([""], [""])["token_error_rate"])


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_the_number_of_edits_is_a_distance(left, right):
    distance = generation_metrics.num_edits(left, right)
    assert distance == generation_metrics.num_edits(right, left)
    assert abs(len(left) - len(right)) <= distance <= max(len(left), len(right))
    assert (distance == 0) == (left == right)


def test_the_majority_baseline_gives_the_most_frequent_training_answer():
    accuracy = metric_function("accuracy")
    majority = baselines.majority(["b", "a", "b"], ["a", "b", "b", "c"], [accuracy])
    assert majority == baselines.MajorityBaseline("b", {"accuracy": 50.0})
