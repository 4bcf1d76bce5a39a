"""The loss of a bidirectional language model against numpy: the mean of both directions, each over its own tokens."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.bidirectional_lm import BidirectionalLM
from t5x_like.ancestors.directions import DIRECTION_MEASURES, BidirectionalLogits
from t5x_like.ancestors.layers.sampled_softmax import SampledLogits
from t5x_like.batch import Batch
from t5x_like.model.families.family import Predictions
from t5x_like.model.layers.linear import Linear
from t5x_like.text.batches.batch_layout import BatchLayout
from t5x_like.text.objectives.objective import ExampleSpec, Lengths, Text
from t5x_like.training import losses
from t5x_like.training.losses import LossConfig
from t5x_like.training.metrics import summarize
from tests.text.objectives.encoder_rows import IDS, seeds

VOCAB, LENGTH = 200, 9
PLAIN = LossConfig(z_loss=0.0)
LENGTHS = Lengths(LENGTH, 2)


def batch() -> Batch:
    """Two rows: texts of two words and of one with 2 places of padding; a text of seven words."""
    words = (np.arange(104, 106), np.arange(106, 107), np.arange(110, 117))
    texts = [Text(each.astype(np.int32), len(each)) for each in words]
    made = BidirectionalLM().make(texts, seeds(3), LENGTHS, IDS)
    laid = BatchLayout(ExampleSpec("encoder", ("weights",)), LENGTHS).batch([made[:2], made[2:]])
    return jax.tree.map(jnp.asarray, laid)


RNG = np.random.default_rng(0)
FORWARD, BACKWARD = (RNG.normal(size=(2, LENGTH, VOCAB)).astype(np.float32) for _ in range(2))


def totals_of(predictions: Predictions, config: LossConfig = PLAIN):
    totals_batch = batch()
    weights, normalizers = losses.normalize(totals_batch, config)
    return losses.total(
        predictions, totals_batch, config, weights=weights, normalizers=normalizers, num_tasks=1
    )


def costs(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64)
    chosen = np.take_along_axis(logits, np.asarray(batch().target_tokens)[..., None], -1)[..., 0]
    return np.log(np.exp(logits).sum(-1)) - chosen


# Places that have a token before them, or after them, in their text.
BEFORE = np.array([[0, 1, 1, 1, 0, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1, 1, 1]], bool)
AFTER = np.array([[1, 1, 1, 0, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1, 0]], bool)


def test_the_loss_is_the_mean_of_both_directions():
    result, totals = totals_of(
        Predictions(logits=BidirectionalLogits(jnp.asarray(FORWARD), jnp.asarray(BACKWARD)))
    )
    forward, backward = costs(FORWARD)[BEFORE].mean(), costs(BACKWARD)[AFTER].mean()
    np.testing.assert_allclose(result, (forward + backward) / 2, rtol=1e-5)
    summary = summarize(totals)
    assert summary["target_tokens"] == BEFORE.sum() == AFTER.sum()
    np.testing.assert_allclose(summary["cross_entropy"], (forward + backward) / 2, rtol=1e-5)
    for name, cost in zip(("forward", "backward"), (forward, backward), strict=True):
        np.testing.assert_allclose(summary[f"{name}_cross_entropy"], cost, rtol=1e-5)
        np.testing.assert_allclose(summary[f"{name}_perplexity"], np.exp(cost), rtol=1e-5)


def test_accuracy_counts_both_directions():
    right = jax.nn.one_hot(batch().target_tokens, VOCAB)
    _, totals = totals_of(Predictions(logits=BidirectionalLogits(right, -right)))
    assert summarize(totals)["accuracy"] == pytest.approx(0.5)


def test_z_loss_is_of_both_directions_and_not_of_perplexities():
    predictions = Predictions(logits=BidirectionalLogits(jnp.asarray(FORWARD), jnp.asarray(BACKWARD)))
    plain, penalized = (summarize(totals_of(predictions, LossConfig(z_loss=rate))[1]) for rate in (0.0, 0.1))
    assert penalized["loss"] > plain["loss"]
    for name in (*DIRECTION_MEASURES, "cross_entropy"):
        assert penalized[name] == pytest.approx(plain[name], rel=1e-5)


def test_the_ends_have_one_direction_alone():
    """A forward prediction of a text's first token, or a backward one of its last, changes nothing."""
    changed = FORWARD + 5 * RNG.normal(size=FORWARD.shape) * ~BEFORE[..., None]
    other = BACKWARD + 5 * RNG.normal(size=FORWARD.shape) * ~AFTER[..., None]
    kept = totals_of(Predictions(logits=BidirectionalLogits(jnp.asarray(FORWARD), jnp.asarray(BACKWARD))))[0]
    totals = totals_of(Predictions(logits=BidirectionalLogits(jnp.asarray(changed), jnp.asarray(other))))[0]
    np.testing.assert_allclose(totals, kept, rtol=1e-5)


def test_samples_are_measured_like_logits():
    layer = Linear(4, VOCAB, axes=("embed", "vocab"), key=jax.random.key(0))
    hidden = jnp.asarray(RNG.normal(size=(2, LENGTH, 4)), jnp.float32)
    all_words = SampledLogits(hidden, layer, jax.random.key(0), VOCAB, VOCAB)
    sampled = totals_of(Predictions(logits=BidirectionalLogits(all_words, all_words)))[0]
    whole = totals_of(Predictions(logits=BidirectionalLogits(all_words.whole(), all_words.whole())))[0]
    np.testing.assert_allclose(sampled, whole, rtol=1e-5)
    few = all_words._replace(num_samples=10)
    assert totals_of(Predictions(logits=BidirectionalLogits(few, few)))[0] < whole - 0.5
