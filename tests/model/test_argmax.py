"""The index of the highest score is the one that JAX finds."""

import jax.numpy as jnp
import numpy as np

from t5x_like.model.layers.argmax import argmax


def test_the_first_of_equally_high_scores_is_taken():
    scores = jnp.asarray(
        [[[0.0, 2.0, 2.0], [-jnp.inf, -jnp.inf, -jnp.inf]], [[3.0, 1.0, 3.0], [0.0, 1.0, 5.0]]]
    )
    np.testing.assert_array_equal(argmax(scores), jnp.argmax(scores, -1))
    assert argmax(scores).dtype == jnp.int32


def test_scores_that_are_not_a_number_give_an_index_of_the_vocabulary():
    assert int(argmax(jnp.full(3, jnp.nan))) == 2
