"""Cosines of texts, compared with scores of people."""

import numpy as np
import pytest

import t5x_like
from t5x_like.evaluation.similarity import cosine_similarities, similarity_scores
from tests.pretrained.test_sentence_transformers import write_sentence_model


def test_scores_that_are_the_cosines_correlate_fully(tmp_path):
    pretrained = t5x_like.from_pretrained(write_sentence_model(tmp_path / "model"))
    first, second = ["in the", "the", "beginning"], ["the beginning", "in the", "in in the"]
    cosines = cosine_similarities(pretrained.embed(first), pretrained.embed(second))
    scores = similarity_scores(pretrained, first, second, (5 * cosines).tolist(), batch_size=2)
    assert scores == pytest.approx({"spearman_corrcoef": 100.0, "pearson_corrcoef": 100.0}, abs=1e-3)
    reversed_scores = similarity_scores(pretrained, first, second, (-cosines).tolist())
    assert reversed_scores["spearman_corrcoef"] == pytest.approx(-100.0, abs=1e-3)
    with pytest.raises(ValueError, match="3 first texts, 3 second texts and 2 scores; give as many"):
        similarity_scores(pretrained, first, second, [1.0, 2.0])


def test_vectors_that_can_not_be_compared_are_refused():
    with pytest.raises(ValueError, match=r"vectors of shapes \(2, 4\) and \(2, 3\) are compared"):
        cosine_similarities(np.ones((2, 4)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="some vectors are NaN or infinite"):
        cosine_similarities(np.ones((1, 2)), np.array([[1.0, np.nan]]))
