"""Measures of vectors and cures of anisotropy: cases with known answers, and properties."""

import numpy as np
import pytest

from t5x_like.analysis.vectors import (
    VectorTransform,
    alignment,
    checked_vectors,
    mean_cosine,
    uniformity,
    unit_vectors,
    variance_shares,
    whitening,
    without_components,
)

SHIFTED = np.random.default_rng(0).normal(size=(40, 6)) * [5, 3, 1, 1, 1, 0.5] + 2


def test_the_mean_cosine_is_that_of_all_pairs_of_different_vectors():
    vectors = [[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]]
    assert mean_cosine(vectors) == pytest.approx((0 + np.sqrt(0.5) + np.sqrt(0.5)) / 3)


def test_vectors_of_length_0_have_no_direction_and_are_left_out():
    assert mean_cosine([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]) == pytest.approx(1.0)


def test_the_largest_component_of_points_on_a_line_has_all_of_the_variance():
    shares = variance_shares(np.outer([1.0, 2.0, 5.0], [1.0, 1.0, 0.0]))
    np.testing.assert_allclose(shares, [1.0, 0.0, 0.0], atol=1e-12)


def test_equal_vectors_have_no_variance_to_share():
    np.testing.assert_array_equal(variance_shares(np.ones((3, 2))), [0.0, 0.0])


def test_removed_components_leave_vectors_without_mean_and_variance_along_them():
    before = SHIFTED - SHIFTED.mean(axis=0)
    _, _, components = np.linalg.svd(before)
    cured = without_components(SHIFTED, 2)(SHIFTED)
    np.testing.assert_allclose(cured @ components[:2].T, 0, atol=1e-9)
    np.testing.assert_allclose(cured @ components[2:].T, before @ components[2:].T, atol=1e-9)


def test_whitened_vectors_have_mean_0_and_covariance_1():
    white = whitening(SHIFTED)(SHIFTED)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(white.T @ white / len(white), np.eye(6), atol=1e-9)


def test_fewer_whitened_dimensions_are_the_first_of_all():
    np.testing.assert_allclose(whitening(SHIFTED, 2)(SHIFTED), whitening(SHIFTED)(SHIFTED)[:, :2])


def test_directions_without_variance_are_left_out_of_whitening():
    flat = np.concatenate([SHIFTED, SHIFTED[:, :1]], axis=1)
    assert whitening(flat)(flat).shape == SHIFTED.shape


def test_a_transform_fits_vectors_that_it_was_not_fitted_on():
    first, second = SHIFTED[:30], SHIFTED[30:]
    transform = whitening(first)
    np.testing.assert_allclose(transform(SHIFTED)[30:], transform(second))


def test_alignment_is_the_mean_squared_distance_of_directions():
    assert alignment([[2.0, 0.0]], [[0.0, 5.0]]) == pytest.approx(2.0)
    assert alignment([[2.0, 0.0]], [[0.0, 5.0]], alpha=1) == pytest.approx(np.sqrt(2))


def test_uniformity_is_that_of_all_pairs_however_many_blocks_there_are():
    vectors = unit_vectors(np.random.default_rng(1).normal(size=(1100, 3)))
    distances = np.sum((vectors[:, None] - vectors) ** 2, axis=-1)
    pairs = np.exp(-2 * distances)[np.triu_indices(len(vectors), 1)]
    assert uniformity(vectors) == pytest.approx(np.log(pairs.mean()))


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 2.0], [1.0]], "different widths: 1, 2"),
        ([], "shape \\(0,\\)"),
        ([1.0, 2.0], "shape \\(2,\\)"),
        ([[1.0], [np.nan], [np.inf]], "2 of 3 vectors are not finite, the first is row 1"),
    ],
    ids=["widths", "empty", "one vector", "not finite"],
)
def test_what_is_no_matrix_of_numbers_is_refused(vectors, message):
    with pytest.raises(ValueError, match=message):
        checked_vectors(vectors)


@pytest.mark.parametrize("measure", [mean_cosine, uniformity])
def test_one_vector_has_no_pairs(measure):
    with pytest.raises(ValueError, match="at least 2"):
        measure([[1.0, 2.0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: without_components(SHIFTED, 6), "0 to 5"),
        (lambda: without_components(SHIFTED, -1), "0 to 5"),
        (lambda: whitening(SHIFTED, 7), "vary in 6 directions"),
        (lambda: whitening(SHIFTED, 0), "num_dimensions is 0"),
        (lambda: whitening(np.ones((3, 2))), "vary in 0 directions"),
        (lambda: alignment(SHIFTED, SHIFTED[:3]), "equal ones"),
        (lambda: VectorTransform(np.zeros(3), np.eye(3))(SHIFTED), "width 6"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
