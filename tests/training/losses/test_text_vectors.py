"""Losses of vectors of texts, against sums over single pairs in NumPy."""

import jax.numpy as jnp
import numpy as np

from t5x_like.training.losses.text_vectors import (
    TextVectors,
    cosine_losses,
    in_batch_losses,
    is_nearest,
    margin_mse_losses,
    triplet_losses,
)

VECTORS = np.random.default_rng(0).normal(size=(3, 3, 4)).astype(np.float32)
IS_REAL = np.array([[True, True, True], [True, True, False], [False, False, False]])
TEXTS = TextVectors(jnp.asarray(VECTORS), jnp.asarray(IS_REAL))
UNITS = VECTORS / np.linalg.norm(VECTORS, axis=-1, keepdims=True)
OTHERS = [(0, 1), (0, 2), (1, 1)]  # the second and further texts that are there


def cross_entropy(scores: list[float], own: int) -> float:
    return float(-scores[own] + np.log(np.sum(np.exp(scores))))


def test_the_loss_is_that_of_each_texts_own_answer_among_all_answers() -> None:
    losses = in_batch_losses(TEXTS.units(), temperature=0.5)
    nearest = is_nearest(TEXTS.units())
    for query, own in ((0, 0), (1, 2)):
        scores = [UNITS[query, 0] @ UNITS[other] / 0.5 for other in OTHERS]
        np.testing.assert_allclose(losses[query], cross_entropy(scores, own), rtol=1e-5)
        assert nearest[query] == (int(np.argmax(scores)) == own)
    assert TEXTS.is_example.tolist() == [True, True, False]
    assert np.isfinite(losses).all()


def test_a_margin_lowers_the_own_cosine_alone() -> None:
    losses = in_batch_losses(TEXTS.units(), temperature=0.5, margin=0.3)
    for query, own in ((0, 0), (1, 2)):
        scores = [UNITS[query, 0] @ UNITS[other] for other in OTHERS]
        scores[own] -= 0.3
        np.testing.assert_allclose(losses[query], cross_entropy([s / 0.5 for s in scores], own), rtol=1e-5)


def test_a_symmetric_loss_is_the_mean_of_both_directions() -> None:
    both = in_batch_losses(TEXTS.units(), temperature=0.5, symmetric=True)
    forward = in_batch_losses(TEXTS.units(), temperature=0.5)
    for row in (0, 1):
        scores = [UNITS[row, 1] @ UNITS[query, 0] / 0.5 for query in (0, 1)]
        np.testing.assert_allclose(both[row], (forward[row] + cross_entropy(scores, row)) / 2, rtol=1e-5)


def test_a_triplet_costs_what_its_cosines_lack_of_the_margin() -> None:
    whole = TEXTS._replace(is_real=jnp.ones((3, 3), bool))
    losses = triplet_losses(whole.units(), margin=0.5)
    for row in range(3):
        near, far = (UNITS[row, 0] @ UNITS[row, text] for text in (1, 2))
        np.testing.assert_allclose(losses[row], max(0.5 - near + far, 0), atol=1e-6)


def test_a_cosine_is_compared_with_its_target() -> None:
    losses = cosine_losses(TEXTS.units(), jnp.array([0.5, -0.25, 0.0]))
    for row, target in ((0, 0.5), (1, -0.25)):
        np.testing.assert_allclose(losses[row], (UNITS[row, 0] @ UNITS[row, 1] - target) ** 2, atol=1e-6)


def test_a_margin_of_inner_products_is_compared_with_the_teachers() -> None:
    losses = margin_mse_losses(TEXTS, jnp.array([2.0, 0.0, 0.0]))
    margin = VECTORS[0, 0] @ (VECTORS[0, 1] - VECTORS[0, 2])
    np.testing.assert_allclose(losses[0], (margin - 2.0) ** 2, rtol=1e-5)


def test_the_first_dimensions_are_units_of_their_own() -> None:
    short = TEXTS.first(2).units().vectors[0, 0]
    np.testing.assert_allclose(short, VECTORS[0, 0, :2] / np.linalg.norm(VECTORS[0, 0, :2]), rtol=1e-5)
