"""One token at a time, with a cache, is the same as all at once."""

import functools

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


def write(batch: Batch, cache, places) -> np.ndarray:
    """The logits after each token of ``batch`` at ``places``, and the cache."""
    logits = []
    for place in places:
        one, cache = step(weights_of(TINY), batch.decoder_input_tokens[:, place], cache)
        logits.append(one)
    return np.stack(logits, axis=1), cache


@pytest.fixture(scope="module")
def padded() -> Batch:
    """The second row has three tokens less."""
    batch = random_batch(rows=2, targets=LENGTH)
    return batch._replace(encoder_segment_ids=np.array([[1] * 11, [1] * 8 + [0] * 3], np.int32))


def test_a_reordered_cache_goes_on_from_the_other_rows(padded):
    cache = start(weights_of(TINY), padded.encoder_input_tokens, padded.encoder_segment_ids)
    _, cache = write(padded, cache, range(4))
    model = parameters.merge(graphdef_of(TINY), weights_of(TINY))
    rows = np.array([1, 1, 0])
    swapped = jax.tree.map(lambda array: array[rows], padded)
    logits, _ = write(swapped, model.reorder_cache(cache, jnp.asarray(rows)), range(4, LENGTH))
    np.testing.assert_allclose(logits, logits_of(padded)[rows, 4:], rtol=0, atol=2e-5)
