"""Search by blocks finds what one big product finds, on one device and on several."""

import jax
import numpy as np
import pytest

from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.retrieval.exact_search import search_exactly


def reference(queries, vectors, k):
    scores = queries @ vectors.astype(np.float32).T
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, rows, axis=1), rows


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("devices", [1, 8])
def test_the_best_of_blocks_are_the_best_of_all(dtype, devices):
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(53, 8)).astype(dtype)
    queries = generator.normal(size=(5, 8)).astype(np.float32)
    mesh = MeshConfig().build(jax.devices()[:devices]) if devices > 1 else None
    blocks = [vectors[:20], vectors[20:40], vectors[40:]]
    nearest = search_exactly(queries, blocks, 7, mesh=mesh)
    scores, rows = reference(queries, vectors, 7)
    np.testing.assert_array_equal(nearest.rows, rows)
    np.testing.assert_allclose(nearest.scores, scores, rtol=1e-5)


def test_of_equal_vectors_the_earlier_is_first():
    vectors = np.ones((6, 2), np.float32)
    nearest = search_exactly(np.ones((1, 2), np.float32), [vectors[:4], vectors[4:]], 5)
    assert nearest.rows.tolist() == [[0, 1, 2, 3, 4]]


def test_many_queries_are_searched_in_parts():
    generator = np.random.default_rng(0)
    vectors, queries = generator.normal(size=(9, 4)), generator.normal(size=(1030, 4)).astype(np.float32)
    nearest = search_exactly(queries, [vectors.astype(np.float32)], 1)
    np.testing.assert_array_equal(nearest.rows, reference(queries, vectors, 1)[1])


def test_a_vector_that_is_not_finite_is_refused():
    good, bad = np.ones((2, 2), np.float32), np.array([[1, np.nan]], np.float32)
    with pytest.raises(ValueError, match="block 1 of the vectors has values that are not finite"):
        search_exactly(good, [good, bad], 1)
