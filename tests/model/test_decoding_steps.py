"""One token at a time, with a cache, is the same as all at once."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from tests.model.tiny_t5 import TINY, graphdef_of, logits_of, random_batch, weights_of

LENGTH = 9


@functools.partial(jax.jit, static_argnames="max_length")
def start(params, tokens, segment_ids, *, max_length=LENGTH):
    model = parameters.merge(graphdef_of(TINY), params)
    return model.start_cache(model.encode(tokens, segment_ids), segment_ids, max_length=max_length)


@jax.jit
def step(params, tokens, cache):
    return parameters.merge(graphdef_of(TINY), params).decode_step(tokens, cache)


def write(batch: Batch, cache, places) -> tuple[np.ndarray, Any]:
    """The logits after each token of ``batch`` at ``places``, and the cache."""
    logits = []
    for place in places:
        one, cache = step(weights_of(TINY), batch.decoder_input_tokens[:, place], cache)
        logits.append(one[:, : TINY.vocab_size])
    return np.stack(logits, axis=1), cache


@pytest.fixture(scope="module")
def padded() -> Batch:
    """The second row has three tokens less."""
    batch = random_batch(rows=2, targets=LENGTH)
    return batch._replace(encoder_segment_ids=np.array([[1] * 11, [1] * 8 + [0] * 3], np.int32))


@pytest.mark.slow
def test_each_beam_goes_on_from_the_beam_it_came_from(padded):
    """Three beams for each of two inputs write different tokens, change places among themselves and write on."""
    cache = start(weights_of(TINY), padded.encoder_input_tokens, padded.encoder_segment_ids)
    model = parameters.merge(graphdef_of(TINY), weights_of(TINY))
    beams = random_batch(rows=6, targets=LENGTH)._replace(
        encoder_input_tokens=np.repeat(padded.encoder_input_tokens, 3, axis=0),
        encoder_segment_ids=np.repeat(padded.encoder_segment_ids, 3, axis=0),
    )
    _, cache = write(beams, model.reorder_cache(cache, jnp.zeros((2, 3), jnp.int32)), range(4))
    origins = np.array([[2, 0, 0], [1, 2, 1]])
    rows = (origins + np.array([[0], [3]])).ravel()
    written = np.concatenate(
        [beams.decoder_input_tokens[rows, :4], beams.decoder_input_tokens[:, 4:]], axis=1
    )
    moved = beams._replace(decoder_input_tokens=written)
    logits, _ = write(moved, model.reorder_cache(cache, jnp.asarray(origins)), range(4, LENGTH))
    np.testing.assert_allclose(logits, logits_of(moved)[:, 4:], rtol=0, atol=2e-5)


def test_beams_share_what_their_input_offers_them(padded):
    """One copy for all beams, before and after they move: it is by far the largest part of the memory."""
    cache = start(weights_of(TINY), padded.encoder_input_tokens, padded.encoder_segment_ids)
    model = parameters.merge(graphdef_of(TINY), weights_of(TINY))
    expanded = model.reorder_cache(cache, jnp.zeros((2, 3), jnp.int32))
    assert expanded.layers[0].own.keys.shape[1] == cache.layers[0].own.keys.shape[1]
    assert expanded.layers[0].encoded is cache.layers[0].encoded
    assert expanded.encoded_mask is cache.encoded_mask
