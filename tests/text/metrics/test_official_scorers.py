"""Random and adversarial predictions, scored by ours and by the libraries that the benchmarks' scorers use."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.text import metrics

CLASSES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=40)
BINARY = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=40)
NUMBERS = st.lists(
    st.tuples(st.integers(0, 25).map(lambda fifth: fifth / 5), st.floats(-1, 5, width=32)),
    min_size=3,
    max_size=30,
)
WORDS = st.lists(
    st.sampled_from(["a", "the", "An", "cat", "cat's", "«x»", "3.5", "-", ".", "dog"]), max_size=8
)
TEXTS = st.lists(st.tuples(WORDS.map(" ".join), WORDS.map(" ".join)), min_size=1, max_size=6)


def quietly(function, *arguments, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **settings)


@settings(deadline=None)
@given(BINARY)
def test_binary_scores_are_scikit_learns(rows):
    from sklearn import metrics as sk

    truth, guess = map(list, zip(*rows, strict=True))
    assert metrics.f1_score_with_invalid(truth, guess)["f1"] == pytest.approx(
        100 * quietly(sk.f1_score, truth, guess, zero_division=0)
    )
    assert metrics.matthews_corrcoef(truth, guess)["matthews_corrcoef"] == pytest.approx(
        100 * quietly(sk.matthews_corrcoef, truth, guess), abs=1e-9
    )
    assert metrics.accuracy(truth, guess)["accuracy"] == pytest.approx(100 * sk.accuracy_score(truth, guess))


@settings(deadline=None)
@given(CLASSES)
def test_macro_f1_is_scikit_learns(rows):
    from sklearn import metrics as sk

    truth, guess = map(list, zip(*rows, strict=True))
    expected = quietly(sk.f1_score, truth, guess, labels=[0, 1, 2], average="macro", zero_division=0)
    assert metrics.mean_multiclass_f1(3)(truth, guess)["mean_3class_f1"] == pytest.approx(100 * expected)


@settings(deadline=None)
@given(NUMBERS)
def test_correlations_are_scipys(rows):
    from scipy import stats

    truth, guess = map(list, zip(*rows, strict=True))
    if np.ptp(truth) < 1e-3 or np.ptp(guess) < 1e-3:
        return  # next to a constant both are noise
    assert metrics.pearson_corrcoef(truth, guess)["pearson_corrcoef"] == pytest.approx(
        100 * quietly(stats.pearsonr, truth, guess)[0], abs=1e-6
    )
    assert metrics.spearman_corrcoef(truth, guess)["spearman_corrcoef"] == pytest.approx(
        100 * quietly(stats.spearmanr, truth, guess)[0], abs=1e-6
    )


@settings(deadline=None, max_examples=40)
@given(TEXTS)
def test_rouge_and_bleu_are_their_libraries(rows):
    import sacrebleu
    from rouge_score import rouge_scorer

    truth, guess = map(list, zip(*rows, strict=True))
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2"])
    scores = metrics.rouge_mean(truth, guess)
    for name in ("rouge1", "rouge2"):
        each = [scorer.score(left, right)[name].fmeasure for left, right in rows]
        assert scores[name] == pytest.approx(100 * np.mean(each))
    expected = sacrebleu.corpus_bleu(guess, [truth], smooth_method="exp", tokenize="intl", force=True).score
    assert metrics.bleu(truth, guess)["bleu"] == pytest.approx(expected)


def official_multirc(rows):
    """As SuperGLUE's scorer puts it: F1 of "true" over all answers; questions with all answers right."""
    from sklearn.metrics import f1_score

    questions = {}
    for question, truth, guess in rows:
        questions.setdefault(question, []).append(truth == guess)
    f1 = quietly(f1_score, [row[1] for row in rows], [row[2] for row in rows], zero_division=0)
    return 100 * f1, 100 * np.mean([all(right) for right in questions.values()])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=30))
def test_multirc_is_super_glues(rows):
    targets = [{"group": question, "value": truth} for question, truth, _ in rows]
    predictions = [{"value": guess} for _, _, guess in rows]
    f1, exact = official_multirc(rows)
    assert metrics.multirc_f1_over_all_answers(targets, predictions)["f1"] == pytest.approx(f1)
    exact_match = metrics.mean_group_metric(metrics.all_match)(targets, predictions)["exact_match"]
    assert exact_match == pytest.approx(exact)
