"""Sampled softmax: the distribution of samples, its correction, and the full softmax where all words are sampled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.layers.sampled_softmax import (
    SampledLogits,
    SampledSoftmax,
    expected_counts,
    sample_words,
)
from t5x_like.model.layers.linear import Linear
from t5x_like.model.layers.masks import MASKED
from t5x_like.training.losses.tokens import LossConfig, measure_tokens

VOCAB, DIM, SAMPLES = 30, 4, 8
RNG = np.random.default_rng(0)
HIDDEN = jnp.asarray(RNG.normal(size=(2, 5, DIM)), jnp.float32)
TARGETS = jnp.asarray(RNG.integers(0, VOCAB, (2, 5)), jnp.int32)
LAYER = Linear(DIM, VOCAB + 2, axes=("embed", "vocab"), key=jax.random.key(0), bias=True)
LAYER.bias[...] = jnp.asarray(RNG.normal(size=VOCAB + 2), jnp.float32)
LOSS = LossConfig(z_loss=0.0)


def logits_of(num_samples: int, seed: int = 0) -> SampledLogits:
    return SampledLogits(HIDDEN, LAYER, jax.random.key(seed), num_samples, VOCAB)


def test_a_sample_of_all_words_gives_the_full_softmax():
    sampled, full = logits_of(VOCAB), logits_of(VOCAB).whole()
    assert full.shape == (2, 5, VOCAB)
    result, expected = (measure_tokens(each, TARGETS, LOSS) for each in (sampled, full))
    np.testing.assert_allclose(result.losses, expected.losses, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result.is_correct, expected.is_correct)


def test_candidates_are_corrected_and_the_target_is_no_sample():
    logits = logits_of(SAMPLES)
    result = np.asarray(logits.of_candidates(TARGETS))
    sampled = np.asarray(sample_words(logits.key, vocab_size=VOCAB, num_samples=SAMPLES))
    whole = np.asarray(logits.whole())
    counts = np.asarray(expected_counts(jnp.arange(VOCAB), vocab_size=VOCAB, num_samples=SAMPLES))
    corrected = whole - np.log(counts)
    targets = np.asarray(TARGETS)
    np.testing.assert_allclose(
        result[..., 0], np.take_along_axis(corrected, targets[..., None], -1)[..., 0], rtol=1e-5, atol=1e-5
    )
    hits = sampled[None, None] == targets[..., None]
    assert hits.any()
    np.testing.assert_allclose(
        result[..., 1:], np.where(hits, MASKED, corrected[..., sampled]), rtol=1e-5, atol=1e-5
    )


def test_words_are_sampled_as_often_as_is_expected():
    keys = jax.random.split(jax.random.key(0), 4000)
    drawn = np.asarray(jax.vmap(lambda key: sample_words(key, vocab_size=VOCAB, num_samples=SAMPLES))(keys))
    assert all(len(set(row)) == SAMPLES for row in drawn.tolist())
    result = np.bincount(drawn.ravel(), minlength=VOCAB) / len(keys)
    expected = np.asarray(expected_counts(jnp.arange(VOCAB), vocab_size=VOCAB, num_samples=SAMPLES))
    np.testing.assert_allclose(expected.sum(), SAMPLES, rtol=1e-5)
    assert (np.diff(expected) < 0).all()
    np.testing.assert_allclose(
        result, expected, atol=0.03
    )  # the tries are not counted, but their mean is taken


def test_losses_of_larger_samples_are_nearer_to_the_full_loss():
    full = float(measure_tokens(logits_of(VOCAB).whole(), TARGETS, LOSS).losses.mean())

    def mean_of(num_samples: int) -> float:
        losses = [
            measure_tokens(logits_of(num_samples, seed), TARGETS, LOSS).losses.mean() for seed in range(20)
        ]
        return float(np.mean(losses))

    assert abs(mean_of(25) - full) < 0.2 * abs(mean_of(5) - full)


def test_no_sample_is_refused():
    with pytest.raises(ValueError, match="num_samples is 0"):
        SampledSoftmax(num_samples=0)
