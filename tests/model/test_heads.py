"""What classifiers of sequences read."""

import jax
import jax.numpy as jnp
import pytest

from t5x_like.model.heads import Pooler, PoolerConfig


@pytest.mark.parametrize(
    ("pooling", "wanted"),
    [("first", [1, 5]), ("last", [3, 8]), ("mean", [2, 7])],
    ids=["first", "last", "mean"],
)
def test_padding_is_passed_over_unless_it_stands_first(pooling, wanted):
    x = jnp.arange(1, 9, dtype=jnp.float32).reshape(2, 4, 1)
    segment_ids = jnp.array([[1, 1, 1, 0], [0, 1, 1, 1]])
    pooled = Pooler(PoolerConfig(pooling=pooling), 1, key=jax.random.key(0))(x, segment_ids)
    assert pooled[:, 0].tolist() == wanted
