"""Dropout comes from an explicit key, and stands where T5 puts it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.dropout import dropout
from tests.model.tiny_t5 import TINY, changed, graphdef_of, logits_of, random_batch, weights_of

DROPPED = changed(dropout_rate=0.3)


def test_without_a_key_or_a_rate_nothing_is_dropped():
    batch = random_batch()
    np.testing.assert_array_equal(logits_of(batch, DROPPED), logits_of(batch))
    np.testing.assert_array_equal(logits_of(batch, dropout_key=jax.random.key(1)), logits_of(batch))


def test_what_survives_is_scaled_up():
    x = jnp.ones((100, 50))
    dropped = dropout(x, 0.25, jax.random.key(0))
    assert set(np.unique(dropped)) == {0.0, np.float32(1 / 0.75)}
    np.testing.assert_allclose(dropped.mean(), 1.0, atol=0.03)


@pytest.mark.parametrize("shared", [0, 1, 2])
def test_entries_along_the_shared_dimension_live_or_die_together(shared):
    dropped = np.asarray(dropout(jnp.ones((6, 7, 8)), 0.5, jax.random.key(0), shared_dim=shared))
    assert (np.ptp(dropped, axis=shared) == 0).all()
    assert all(np.ptp(dropped, axis=other).any() for other in {0, 1, 2} - {shared})


def test_dropout_stands_where_t5_has_it():
    """Embeddings; in each layer the attention weights, the activations and each sublayer's output; the final norm's.

    Counted in the program: one draw of bits for each, where a scan holds its layer once.
    """
    model = parameters.merge(graphdef_of(DROPPED), weights_of(TINY))
    program = jax.make_jaxpr(lambda batch, key: model(batch, dropout_key=key).logits)
    encoder, decoder = 1 + (1 + 1) + (1 + 1) + 1, 1 + 2 * (1 + 1) + (1 + 1) + 1
    assert count_draws(program(random_batch(), jax.random.key(0)).jaxpr) == encoder + decoder


def count_draws(program) -> int:
    """How many equations draw random bits, in a program and those inside it."""
    inner = [getattr(value, "jaxpr", value) for line in program.eqns for value in line.params.values()]
    here = sum(line.primitive.name == "random_bits" for line in program.eqns)
    return here + sum(count_draws(part) for part in inner if hasattr(part, "eqns"))
