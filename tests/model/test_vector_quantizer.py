"""Quantization of vectors: entries, their gradient, how evenly they are used, and the positions that are drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.vector_quantizer import (
    GumbelTemperature,
    Quantized,
    VectorQuantizer,
    VectorQuantizerConfig,
    codebook_use,
    draw_positions,
)

DIM, ENTRIES = 6, 5
CONFIG = VectorQuantizerConfig(num_codebooks=2, num_entries=ENTRIES)
QUANTIZER = VectorQuantizer(CONFIG, DIM, key=jax.random.key(0))
ROWS = jax.random.normal(jax.random.key(1), (3, 7, DIM))


def softmax(scores: np.ndarray) -> np.ndarray:
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def test_without_noise_each_codebook_gives_its_most_probable_entry() -> None:
    quantized = QUANTIZER(ROWS)
    scores = np.asarray(ROWS) @ np.asarray(QUANTIZER.scores.kernel[...])
    scores = scores.reshape(3, 7, 2, ENTRIES)
    best = scores.argmax(axis=-1)
    table = np.asarray(QUANTIZER.entries[...])
    wanted = np.concatenate([table[0][best[..., 0]], table[1][best[..., 1]]], axis=-1)
    np.testing.assert_array_equal(quantized.entries, best)
    np.testing.assert_allclose(quantized.vectors, wanted, atol=1e-6)
    np.testing.assert_allclose(quantized.probabilities, softmax(scores), atol=1e-6)


def test_the_gradient_is_that_of_the_mean_of_all_entries() -> None:
    graphdef, params = parameters.split(QUANTIZER)
    weights = jax.random.normal(jax.random.key(2), ROWS.shape)
    temperature, key = 0.7, jax.random.key(3)

    def through(params: parameters.Parameters) -> jax.Array:
        model = parameters.merge(graphdef, params)
        return jnp.sum(weights * model(ROWS, temperature=temperature, key=key).vectors)

    def of_mean(params: parameters.Parameters) -> jax.Array:
        model = parameters.merge(graphdef, params)
        scores = model.scores(ROWS).reshape(3, 7, 2, ENTRIES)
        soft = jax.nn.softmax((scores + jax.random.gumbel(key, scores.shape)) / temperature)
        return jnp.sum(weights * jnp.einsum("blce,ced->blcd", soft, model.entries[...]).reshape(ROWS.shape))

    actual, wanted = (parameters.flatten(jax.grad(each)(params)) for each in (through, of_mean))
    for path in ("scores/kernel", "scores/bias"):
        np.testing.assert_allclose(actual[path], wanted[path], rtol=1e-5, atol=1e-5)
        assert np.abs(actual[path]).max() > 1e-3
    assert np.abs(actual["entries"]).max() > 1e-3


def test_noise_draws_entries_by_their_probability() -> None:
    one = ROWS[:1, :1]
    many = jnp.broadcast_to(one, (1, 4000, DIM))
    quantized = QUANTIZER(many, key=jax.random.key(4))
    for codebook in range(2):
        shares = np.bincount(quantized.entries[0, :, codebook], minlength=ENTRIES) / 4000
        np.testing.assert_allclose(shares, quantized.probabilities[0, 0, codebook], atol=0.03)


def test_use_of_codebooks_is_the_perplexity_of_mean_probabilities_of_real_vectors() -> None:
    quantized, real = QUANTIZER(ROWS), np.arange(7)[None] < np.array([7, 4, 1])[:, None]
    use = codebook_use(quantized, jnp.array(real))
    mean = np.asarray(quantized.probabilities)[real].mean(axis=0)
    perplexity = np.exp(-(mean * np.log(mean)).sum(axis=-1)).sum()
    assert float(use.diversity_loss) == pytest.approx((2 * ENTRIES - perplexity) / (2 * ENTRIES), abs=1e-5)
    chosen = np.eye(ENTRIES)[np.asarray(quantized.entries)][real].mean(axis=0)
    entropies = -np.where(chosen > 0, chosen * np.log(np.where(chosen > 0, chosen, 1.0)), 0.0).sum(axis=-1)
    assert float(use.perplexity) == pytest.approx(np.exp(entropies).sum(), abs=1e-4)


def test_equal_probabilities_use_all_entries_and_a_single_entry_the_fewest() -> None:
    entries = jnp.broadcast_to(jnp.arange(ENTRIES)[None, :, None], (1, ENTRIES, 2))
    real = jnp.ones((1, ENTRIES), bool)
    even = Quantized(jnp.zeros((1, ENTRIES, DIM)), entries, jnp.full((1, ENTRIES, 2, ENTRIES), 1 / ENTRIES))
    single = even._replace(
        entries=jnp.zeros_like(entries), probabilities=jax.nn.one_hot(jnp.zeros_like(entries), ENTRIES)
    )
    assert float(codebook_use(even, real).diversity_loss) == pytest.approx(0.0, abs=1e-4)
    assert float(codebook_use(even, real).perplexity) == pytest.approx(2 * ENTRIES, abs=1e-3)
    assert float(codebook_use(single, real).diversity_loss) == pytest.approx(1 - 1 / ENTRIES, abs=1e-4)
    assert float(codebook_use(single, real).perplexity) == pytest.approx(2.0, abs=1e-3)


def test_the_temperature_falls_to_its_last_value_which_held_out_rows_have() -> None:
    temperature = GumbelTemperature()
    assert [float(temperature.at(step)) for step in (0, 100_000, 10_000_000)] == pytest.approx(
        [2.0, 2.0 * 0.999995**100_000, 0.5], rel=1e-2
    )
    assert float(temperature.at(None)) == 0.5


@pytest.mark.parametrize(("rate", "share"), [(0.0, 0.0), (0.1, 0.1), (0.5, 0.5), (1.0, 1.0)])
def test_a_share_of_real_positions_is_drawn(rate: float, share: float) -> None:
    real = jnp.arange(40)[None] < jnp.array([40, 20, 10])[:, None]
    drawn = draw_positions(jax.random.key(5), real, rate)
    np.testing.assert_array_equal(jnp.sum(drawn, axis=1), np.array([40, 20, 10]) * share)
    assert not np.any(np.asarray(drawn) & ~np.asarray(real))


def test_shares_of_short_rows_are_rounded_up_or_down_at_random() -> None:
    real = jnp.ones((1, 5), bool)
    counts = jax.vmap(lambda key: jnp.sum(draw_positions(key, real, 0.1)))(
        jax.random.split(jax.random.key(6), 400)
    )
    assert set(np.unique(counts)) == {0, 1}
    assert float(jnp.mean(counts)) == pytest.approx(0.5, abs=0.1)


def test_impossible_codebooks_and_temperatures_are_refused() -> None:
    with pytest.raises(ValueError, match="num_entries is 0"):
        VectorQuantizerConfig(num_entries=0)
    with pytest.raises(ValueError, match="model_dim=6 doesn't divide among num_codebooks=4"):
        VectorQuantizer(VectorQuantizerConfig(num_codebooks=4), DIM, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"first=0\.1 to last=0\.5"):
        GumbelTemperature(first=0.1)
    with pytest.raises(ValueError, match=r"decay is 2\.0"):
        GumbelTemperature(decay=2.0)
