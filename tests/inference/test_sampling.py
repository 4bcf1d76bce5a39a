import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from history_table import HistoryTable

from t5x_like.inference.sampling import check_temperature, draw_tokens, sample, truncate_logits
from t5x_like.model.layers.masks import MASKED
from tests.references import read_arrays

START, EOS = 2, 1


def draw(model, **options):
    options = {"max_new_tokens": 8, "eos_token_id": EOS, **options}
    return sample(model.step, model.start(), start_tokens=jnp.full(len(model.tables), START), **options)


@pytest.fixture
def model():
    return HistoryTable(seed=4, num_rows=6, vocab_size=7)


def test_greedy_takes_the_most_likely_token_and_pads_after_the_end(model):
    result = draw(model, pad_token_id=6)
    for row in range(6):
        read, total = [START], 0.0
        for token in np.asarray(result.tokens)[row]:
            if EOS in read:
                assert token == 6
                continue
            log_probs = model.log_probs_after(row, read)
            assert token == log_probs.argmax()
            read.append(int(token))
            total += log_probs.max()
        assert float(result.log_probs[row]) == pytest.approx(total, rel=1e-5)
    assert np.any(np.asarray(result.tokens) == EOS)


def test_greedy_is_temperature_zero_and_no_key(model):
    np.testing.assert_array_equal(
        draw(model).tokens, draw(model, key=jax.random.key(0), temperature=0.0).tokens
    )


def test_the_same_key_gives_the_same_draw_and_another_key_another(model):
    first, again, other = (draw(model, key=jax.random.key(seed)).tokens for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(np.asarray(first) != np.asarray(other))


def test_a_rows_draw_does_not_depend_on_the_rows_after_it(model):
    fewer = HistoryTable(seed=0, num_rows=2, vocab_size=7)
    fewer.tables = model.tables[:2]
    key = jax.random.key(3)
    np.testing.assert_array_equal(draw(fewer, key=key).tokens, draw(model, key=key).tokens[:2])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.1, 0.2, 0.3, 0.4]),
        ({"temperature": 0.5}, [0.01 / 0.3, 0.04 / 0.3, 0.09 / 0.3, 0.16 / 0.3]),
        ({"top_k": 2}, [0, 0, 3 / 7, 4 / 7]),
        ({"top_p": 0.75}, [0, 2 / 9, 3 / 9, 4 / 9]),
        ({"top_k": 3, "top_p": 0.5}, [0, 0, 3 / 7, 4 / 7]),
    ],
)
def test_drawn_tokens_have_the_asked_distribution(options, expected):
    rows = 4000
    model = HistoryTable(seed=0, num_rows=rows, vocab_size=4)
    model.tables = jnp.broadcast_to(jnp.log(jnp.array([0.1, 0.2, 0.3, 0.4])), model.tables.shape)
    tokens = draw(model, key=jax.random.key(0), max_new_tokens=2, eos_token_id=None, **options).tokens
    shares = np.bincount(np.asarray(tokens).ravel(), minlength=4) / (2 * rows)
    # Five standard deviations of a share of 8,000 draws.
    np.testing.assert_allclose(shares, expected, atol=5 * 0.5 / np.sqrt(2 * rows))
    assert np.all(shares[np.array(expected) == 0] == 0)


def test_tokens_of_every_block_are_drawn_by_their_probability_and_masked_ones_never():
    num_draws, vocab_size = 20_000, 300
    logits = np.random.default_rng(0).normal(size=vocab_size)
    logits[[0, 5, 130, 299]] = -np.inf
    keys = jax.random.split(jax.random.key(0), num_draws)
    drawn = jax.jit(draw_tokens)(keys, jnp.broadcast_to(jnp.float32(logits), (num_draws, vocab_size)))
    shares = np.bincount(np.asarray(drawn), minlength=vocab_size) / num_draws
    expected = np.exp(logits) / np.exp(logits).sum()
    assert np.all(np.abs(shares - expected) <= 5 * np.sqrt(expected * (1 - expected) / num_draws))


def test_truncation_is_hugging_faces(golden):
    units = read_arrays(golden / "models" / "units" / "io.npz")
    logits = jnp.asarray(units["lp_logits"])
    np.testing.assert_array_equal(truncate_logits(logits, top_k=5), units["lp_topk_5"])
    np.testing.assert_array_equal(truncate_logits(logits, top_p=0.8), units["lp_topp_0p8"])


def test_everything_works_under_jit_and_stops_when_all_rows_have_ended(model):
    model.tables = model.tables.at[:, :, EOS].add(5.0)
    # A million steps would take minutes; these rows end within a few.
    result = jax.jit(lambda key: draw(model, key=key, max_new_tokens=1_000_000))(jax.random.key(0))
    assert int((result.tokens != 0).sum(-1).max()) < 50


def test_several_tokens_may_end_a_sequence(model):
    ended_by = []
    for row in np.asarray(draw(model, eos_token_id=(EOS, 3, 4)).tokens):
        ends = np.flatnonzero(np.isin(row, (EOS, 3, 4)))
        if len(ends):
            assert np.all(row[ends[0] + 1 :] == 0)
        ended_by += row[ends].tolist()
    assert {3, 4} <= set(ended_by)


def test_impossible_settings_are_refused_in_words(model):
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="top_k is 0"):
        draw(model, key=key, top_k=0)
    with pytest.raises(ValueError, match=r"top_p is 1\.5"):
        draw(model, key=key, top_p=1.5)
    with pytest.raises(ValueError, match="temperature is -1"):
        draw(model, key=key, temperature=-1.0)


@pytest.mark.parametrize(
    "options",
    [pytest.param({}, marks=pytest.mark.slow), {"key": jax.random.key(5), "temperature": 0.9, "top_k": 6}],
)
def test_rows_that_end_may_leave_the_batch(options):
    model = HistoryTable(seed=3, num_rows=9, vocab_size=12, sharpness=2.0)

    def run(**more):
        return sample(
            model.step, model.start(), start_tokens=jnp.zeros(9, jnp.int32), max_new_tokens=14, eos_token_id=(1, 2),
            **options, **more,
        )  # fmt: skip

    whole = run()
    lengths = (np.asarray(whole.tokens) != 0).sum(1)
    assert len(set(lengths.tolist())) > 3
    for num_last in (1, 2, 5, 8):
        few = run(keep_inputs=model.keep_inputs, num_last_inputs=num_last)
        np.testing.assert_array_equal(few.tokens, whole.tokens)
        np.testing.assert_allclose(few.log_probs, whole.log_probs, rtol=1e-6)


@pytest.mark.parametrize("temperature", [math.nan, math.inf, -1.0])
def test_a_temperature_that_divides_into_nothing_is_refused(temperature):
    with pytest.raises(ValueError, match="positive, finite number"):
        check_temperature(temperature)


def test_ids_that_only_pad_the_vocabulary_are_not_drawn_at_any_temperature():
    logits = jnp.array([[1.0, 2.0, MASKED, MASKED]])

    def step(tokens, cache):
        return jnp.repeat(logits, len(tokens), axis=0), cache

    drawn = sample(
        step,
        {},
        start_tokens=jnp.zeros(64, jnp.int32),
        max_new_tokens=4,
        eos_token_id=None,
        key=jax.random.key(0),
        temperature=1e12,
    )
    assert set(np.unique(drawn.tokens).tolist()) == {0, 1}
