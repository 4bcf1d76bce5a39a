"""What a whole model reads, and what it answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from tests.model.hidden_states import hidden_states
from tests.model.tiny_t5 import (
    TINY,
    changed,
    graphdef_of,
    logits_of,
    predict,
    random_batch,
    weights_of,
)

# Sums over more or fewer zeros may be taken in another order.
CLOSE = {"rtol": 0, "atol": 2e-5}


@pytest.mark.parametrize("place", [0, 10])
def test_every_target_sees_the_whole_input(place):
    batch = random_batch()
    tokens = batch.encoder_input_tokens.copy()
    tokens[:, place] = (tokens[:, place] + 1) % TINY.vocab_size
    change = np.abs(logits_of(batch) - logits_of(batch._replace(encoder_input_tokens=tokens)))
    assert (change.max(-1) > 1e-5).all()


def test_every_row_is_on_its_own():
    batch = random_batch(rows=2)
    other = random_batch(rows=2, seed=7)
    mixed = jax.tree.map(lambda one, two: np.stack([one[0], two[1]]), batch, other)
    np.testing.assert_allclose(logits_of(mixed)[0], logits_of(batch)[0], **CLOSE)


def test_without_segment_ids_everything_is_real():
    batch = random_batch()
    ones = batch._replace(
        encoder_segment_ids=np.ones_like(batch.encoder_input_tokens),
        decoder_segment_ids=np.ones_like(batch.decoder_input_tokens),
    )
    np.testing.assert_array_equal(logits_of(batch), logits_of(ones))


def test_an_id_outside_the_table_is_not_taken_for_another():
    batch = random_batch()
    batch.decoder_input_tokens[0, 3] = TINY.vocab_size
    logits = logits_of(batch)
    assert np.isnan(logits[0]).any()
    assert np.isfinite(logits[1]).all()


def test_hidden_states_go_from_the_embeddings_to_the_output():
    batch, params = random_batch(), weights_of(TINY)
    hidden = hidden_states(parameters.merge(graphdef_of(TINY), params), batch)
    assert hidden["encoder"].shape == (3, 2, 11, 16)
    embedded = params["embedding"]["tokens"]["table"][batch.decoder_input_tokens]
    np.testing.assert_array_equal(hidden["decoder"][0], embedded)
    result = predict(TINY, params, batch)
    np.testing.assert_allclose(hidden["decoder"][-1], result.decoder_output, **CLOSE)
    np.testing.assert_allclose(hidden["encoder"][-1], result.encoder_output, **CLOSE)


def test_a_tied_head_divides_by_the_root_of_the_width():
    config = changed(tie_word_embeddings=True)
    params = weights_of(config)
    result = predict(config, params, random_batch())
    words = params["embedding"]["tokens"]["table"][: config.vocab_size]
    logits = result.logits[..., : config.vocab_size]
    np.testing.assert_allclose(logits, result.decoder_output @ words.T / 4.0, rtol=1e-5, atol=1e-5)
    assert "heads" not in params


def test_rows_of_the_table_that_are_no_words_are_never_chosen():
    logits = predict(TINY, weights_of(TINY), random_batch()).logits
    assert logits.shape[-1] == 128
    assert (logits[..., TINY.vocab_size :] == -1e10).all()


def test_bfloat16_logits_are_not_rounded_to_bfloat16():
    logits = logits_of(random_batch(), changed(compute_dtype="bfloat16"))
    rounded = np.asarray(jnp.asarray(logits).astype(jnp.bfloat16).astype(jnp.float32))
    assert (logits != rounded).mean() > 0.5
