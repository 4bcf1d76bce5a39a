"""Scores of rankings are those of trec_eval and of scikit-learn."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.io.files import read_json
from t5x_like.text.metrics.retrieval_metrics import retrieval_scores
from tests.references import FIXTURES


def test_scores_are_those_of_pytrec_eval():
    recorded = read_json(FIXTURES / "metrics" / "retrieval.json")
    scores = retrieval_scores(recorded["judgments"], recorded["rankings"])
    assert scores == pytest.approx(recorded["scores"], abs=1e-6)  # trec_eval computes in float32


@given(
    grades=st.lists(st.integers(0, 3), min_size=2, max_size=20).filter(any),
    seed=st.integers(0, 99),
)
def test_ndcg_is_that_of_scikit_learn(grades, seed):
    order = np.random.default_rng(seed).permutation(len(grades))
    ranking = [f"d{index}" for index in order]
    predicted = np.empty(len(grades))
    predicted[order] = -np.arange(len(grades))
    expected = sklearn.metrics.ndcg_score([grades], [predicted], k=10)
    judgments = {"q": {f"d{index}": grade for index, grade in enumerate(grades)}}
    computed = retrieval_scores(judgments, {"q": ranking})["ndcg@10"]
    assert computed == pytest.approx(expected)


def test_a_judged_query_without_a_ranking_scores_0():
    scores = retrieval_scores({"a": {"d": 1}, "b": {"d": 1}}, {"a": ["d"]})
    assert set(scores.values()) == {0.5}


def test_recall_over_a_cut_below_the_depth_is_left_out():
    assert set(retrieval_scores({"a": {"d": 1}}, {"a": ["d"]}, depth=20)) == {
        *("ndcg@10", "mrr@10", "recall@10", "map@20")
    }


def test_a_document_that_is_ranked_twice_is_refused():
    with pytest.raises(ValueError, match="a document twice"):
        retrieval_scores({"a": {"d": 1}}, {"a": ["d", "d"]})
