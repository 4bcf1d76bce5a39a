"""A flow of vectors: its inverse, its determinant, its likelihood, and its use as a cure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import t5x_like
from t5x_like.analysis.flow import Flow, _forward
from t5x_like.analysis.vectors import mean_cosine
from tests.analysis.test_anisotropy import SCORED
from tests.model.zoo.tiny_models import TINY
from tests.pretrained.test_pretrained_model import WORDS, write


def bent(count, width=5):
    """Returns vectors in a narrow cone, whose last dimension is a curve of the first."""
    vectors = np.random.default_rng(0).normal(size=(count, width))
    vectors[:, -1] = vectors[:, 0] ** 2 + 0.1 * vectors[:, -1]
    return vectors + 10


@pytest.fixture(scope="module")
def flow():
    return Flow.fit(bent(500), steps=400, learning_rate=5e-3, hidden_dim=16)


def test_the_inverse_returns_the_vectors(flow):
    vectors = bent(50)
    assert np.abs(flow(vectors) - vectors).max() > 1
    np.testing.assert_allclose(flow.inverse(flow(vectors)), vectors, atol=1e-4)


def test_densities_have_the_determinant_of_the_derivative(flow):
    vectors = bent(3)

    def output(vector):
        standardized = (vector - flow.mean) / flow.scale
        return _forward(flow.weights, standardized[None].astype(jnp.float32))[0][0]

    for vector, density in zip(vectors, flow.log_density(vectors), strict=True):
        derivative = jax.jacobian(output)(jnp.asarray(vector, jnp.float32))
        expected = (
            scipy.stats.norm.logpdf(np.asarray(output(vector))).sum() + np.linalg.slogdet(derivative)[1]
        )
        assert density == pytest.approx(expected, abs=1e-3)


def test_the_likelihood_rises_above_that_of_a_gaussian(flow):
    vectors = bent(500)
    mean, covariance = vectors.mean(axis=0), np.cov(vectors.T)
    gaussian = scipy.stats.multivariate_normal.logpdf(vectors, mean, covariance)  # pyright: ignore[reportArgumentType]
    untrained = Flow.fit(vectors, steps=0).log_density(vectors).mean()
    trained = flow.log_density(vectors).mean()
    assert trained > gaussian.mean() + 0.3
    assert trained > untrained + 0.3


def test_vectors_of_a_cone_point_everywhere_after_it(flow):
    vectors = bent(500)
    assert mean_cosine(vectors) > 0.9
    assert abs(mean_cosine(flow(vectors))) < 0.05


def test_a_seed_repeats_a_flow():
    one, same, other = (Flow.fit(bent(20), steps=2, seed=seed)(bent(20)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.1


@pytest.mark.parametrize("arguments", [(np.ones((1, 4)), 5), (np.ones((4, 1)), 5), (np.ones((4, 4)), -1)])
def test_too_few_vectors_dimensions_or_steps_are_refused(arguments):
    with pytest.raises(ValueError, match="a flow needs at least two vectors of width 2"):
        Flow.fit(*arguments)


def test_anisotropy_has_a_flow_among_its_cures(tmp_path):
    folder = write(TINY["bert"], tmp_path / "bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    options = {"text": "a", "second_text": "b", "score": "score", "removed_components": (), "flow_steps": 3}
    result = t5x_like.analyze(t5x_like.from_pretrained(folder), SCORED, "anisotropy", **options)
    assert set(result.values["similarity"][0]["spearman"]) == {"unchanged", "whitened", "flow"}
    with pytest.raises(ValueError, match="flow_steps is -1"):
        t5x_like.analyze(t5x_like.from_pretrained(folder), SCORED, "anisotropy", flow_steps=-1)
