"""Logistic regression on standardized vectors, and the length of the labels' code."""

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from t5x_like.analysis.linear_probe import PORTIONS, LinearProbe, online_code


def examples(count, num_classes=3, width=6, noise=1.0):
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(count, width)).astype(np.float32) * 5 + 2
    scores = vectors @ generator.normal(size=(width, num_classes)) / 5
    return vectors, (scores + noise * generator.gumbel(size=scores.shape)).argmax(axis=1)


def test_a_probe_is_the_logistic_regression_of_scikit_learn():
    vectors, labels = examples(200)
    probe = LinearProbe.fit(vectors, labels, 3, l2=2.0)
    standardized = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
    with_bias = np.concatenate([standardized, np.ones((200, 1))], axis=1)
    expected = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-8, max_iter=1000).fit(with_bias, labels)
    np.testing.assert_allclose(probe.log_probs(vectors), expected.predict_log_proba(with_bias), atol=0.01)
    assert probe.accuracy(vectors, labels) == pytest.approx(100 * expected.score(with_bias, labels), abs=1)


def test_a_class_without_an_example_keeps_a_probability():
    vectors, labels = examples(50)
    log_probs = LinearProbe.fit(vectors, np.minimum(labels, 1), 3, l2=1.0).log_probs(vectors)
    assert (log_probs[:, 2] > -20).all()
    assert (log_probs[:, 2] < -1).all()


def test_a_dimension_that_never_varies_changes_nothing():
    vectors, labels = examples(50)
    with_constant = np.concatenate([vectors, np.full((50, 1), 1e4, np.float32)], axis=1)
    plain, other = (
        LinearProbe.fit(each, labels, 3, l2=1.0).log_probs(each) for each in (vectors, with_constant)
    )
    np.testing.assert_allclose(other, plain, atol=1e-3)


def test_the_code_sends_each_portion_with_a_probe_of_those_before():
    vectors, labels = examples(400)
    ends = [1, 2, 4, 7, 13, 25, 50, 100, 200, 400]  # 0.1, 0.2, 0.4, … 100 % rounded up
    bits = ends[0] * np.log2(3)
    for end, next_end in itertools.pairwise(ends):
        log_probs = LinearProbe.fit(vectors[:end], labels[:end], 3, l2=1.0).log_probs(vectors)
        bits -= sum(log_probs[row, labels[row]] for row in range(end, next_end)) / np.log(2)
    code = online_code(vectors, labels, 3, l2=1.0)
    assert code.kilobits == pytest.approx(bits / 1000)
    assert code.compression == pytest.approx(400 * np.log2(3) / bits)


def test_labels_that_vectors_determine_have_a_shorter_code_than_random_ones():
    vectors, labels = examples(400, noise=0.0)
    shuffled = np.random.default_rng(1).permutation(labels)
    easy, hard = (online_code(vectors, each, 3, l2=1.0).compression for each in (labels, shuffled))
    assert easy > 2.5
    assert hard < 1.1


def test_fewer_examples_than_portions_are_refused():
    vectors, labels = examples(len(PORTIONS) - 1)
    with pytest.raises(ValueError, match="10 training examples are fewer than the 11 portions"):
        online_code(vectors, labels, 3, l2=1.0)
