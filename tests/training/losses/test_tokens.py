import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.training.losses import LossConfig, token_losses, weigh_tokens

VOCAB_SIZE = 7


@pytest.fixture
def batch():
    draw = np.random.default_rng(0)
    logits = jnp.asarray(draw.normal(size=(2, 5, VOCAB_SIZE)) * 3, jnp.float32)
    targets = jnp.asarray(draw.integers(0, VOCAB_SIZE, (2, 5)), jnp.int32)
    weights = jnp.asarray([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], jnp.float32)
    return logits, targets, weights


def normalized_loss(logits, targets, weights, config, segment_ids=None):
    loss, _ = token_losses(logits, targets, config)
    weights, divisor = weigh_tokens(targets, weights, config, segment_ids)
    return (loss * weights).sum() / divisor


def plain(logits, targets, smoothing, z_loss):
    """The definition: cross entropy to the smoothed targets, less their entropy, plus z_loss * log(Z)^2."""
    logits = np.asarray(logits, np.float64)
    log_z = np.log(np.exp(logits).sum(-1))
    wanted = np.full(logits.shape, smoothing / (VOCAB_SIZE - 1))
    np.put_along_axis(wanted, np.asarray(targets)[..., None], 1 - smoothing, -1)
    entropy = -np.sum(wanted * np.log(np.maximum(wanted, 1e-300)), -1)
    return -(wanted * (logits - log_z[..., None])).sum(-1) - entropy, z_loss * log_z**2


@pytest.mark.parametrize(("smoothing", "z_loss"), [(0.0, 0.0), (0.1, 0.0), (0.0, 1e-2), (0.3, 1e-2)])
def test_token_losses_follow_their_definition(batch, smoothing, z_loss):
    logits, targets, _ = batch
    loss, z = token_losses(logits, targets, LossConfig(z_loss=z_loss, label_smoothing=smoothing))
    expected, expected_z = plain(logits, targets, smoothing, z_loss)
    np.testing.assert_allclose(loss, expected + expected_z, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(z, expected_z, rtol=1e-5, atol=1e-6)


def test_a_perfect_smoothed_prediction_costs_nothing():
    config = LossConfig(label_smoothing=0.1, z_loss=0.0)
    perfect = jnp.log(jnp.full((1, 1, VOCAB_SIZE), 0.1 / (VOCAB_SIZE - 1)).at[0, 0, 2].set(0.9))
    np.testing.assert_allclose(token_losses(perfect, jnp.array([[2]]), config)[0], 0.0, atol=1e-6)


def test_huge_logits_stay_finite():
    logits = jnp.full((1, 1, VOCAB_SIZE), -1e4).at[0, 0, 0].set(1e4)
    config = LossConfig(z_loss=0.0)
    gradient = jax.grad(lambda x: token_losses(x, jnp.array([[1]]), config)[0].sum())(logits)
    assert bool(jnp.isfinite(gradient).all())
    np.testing.assert_allclose(token_losses(logits, jnp.array([[1]]), config)[0], 2e4)


def test_each_normalization_divides_by_what_it_says(batch):
    logits, targets, weights = batch

    def value(normalize_by):
        return float(normalized_loss(logits, targets, weights, LossConfig(normalize_by=normalize_by)))

    loss, _ = token_losses(logits, targets, LossConfig())
    total = float((loss * weights).sum())
    assert value("sum") == pytest.approx(total)
    assert value("target_tokens") == pytest.approx(total / 6)
    assert value("all_tokens") == pytest.approx(total / 10)
    assert value(233_472) == pytest.approx(total / 233_472)
    rows = [float(loss[0, :4].mean()), float(loss[1, :2].mean())]
    assert value("sequences") == pytest.approx(sum(rows) / 2)


def test_packed_sequences_weigh_the_same_as_in_rows_of_their_own(batch):
    logits, targets, weights = batch
    config = LossConfig(normalize_by="sequences")
    apart = normalized_loss(logits, targets, weights, config)
    packed = [
        jnp.concatenate([array[0, :4], array[1, :2], array[1, 4:]])[None]
        for array in (logits, targets, weights)
    ]
    segments = jnp.array([[1, 1, 1, 1, 2, 2, 0]])
    together = normalized_loss(*packed, config, segments)
    assert float(together) == pytest.approx(float(apart))


@pytest.mark.parametrize("normalize_by", ["sum", "target_tokens", "sequences"])
def test_a_batch_without_targets_has_no_loss_and_no_gradient(batch, normalize_by):
    logits, targets, weights = batch
    config = LossConfig(normalize_by=normalize_by)
    gradient = jax.grad(lambda x: normalized_loss(x, targets, 0 * weights, config))(logits)
    np.testing.assert_array_equal(gradient, 0.0)


def test_impossible_settings_are_refused_in_words():
    with pytest.raises(
        ValueError, match=r"normalize_by needs 'sum', 'target_tokens', .* or a float, got 'tokens'"
    ):
        LossConfig(normalize_by="tokens")  # pyright: ignore
    with pytest.raises(ValueError, match=r"label_smoothing is 1.0"):
        LossConfig(label_smoothing=1.0)
