"""CTC, compared with the sum over all alignments of a small case."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.training.losses.ctc import ctc_losses

BLANK = 3


def text_of(path: tuple[int, ...]) -> list[int]:
    return [each for each, _ in itertools.groupby(path) if each != BLANK]


def by_enumeration(logits: np.ndarray, labels: list[int]) -> float:
    log_probs = np.asarray(jax.nn.log_softmax(logits))
    paths = itertools.product(range(logits.shape[1]), repeat=len(logits))
    scores = [
        sum(frame[each] for frame, each in zip(log_probs, path, strict=True))
        for path in paths
        if text_of(path) == labels
    ]
    return -float(jax.nn.logsumexp(jnp.array(scores)))


def test_the_likelihood_sums_over_all_alignments_of_real_frames() -> None:
    logits = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    labels = jnp.array([[1, 9, 1, 0], [2, 0, 1, 5], [1, 1, 1, 1]])
    is_label = jnp.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]], bool)
    computed, counts = ctc_losses(jnp.array(logits), jnp.array([5, 3, 5]), labels, is_label, blank_id=BLANK)
    assert float(computed[0]) == pytest.approx(by_enumeration(logits[0], [1, 1]), rel=1e-5)
    assert float(computed[1]) == pytest.approx(by_enumeration(logits[1, :3], [2, 0]), rel=1e-5)
    assert counts.tolist() == [2, 2, 0]


def test_rows_with_too_few_frames_have_no_loss_and_no_gradient() -> None:
    labels, is_label = jnp.array([[1, 1, 2]]), jnp.ones((1, 3), bool)

    def loss(logits: jax.Array) -> jax.Array:
        return jnp.sum(ctc_losses(logits, jnp.array([3]), labels, is_label, blank_id=BLANK)[0])

    total, gradient = jax.value_and_grad(loss)(jnp.ones((1, 6, 4)))
    assert float(total) == 0.0
    np.testing.assert_array_equal(gradient, 0.0)
