"""Buckets of relative distances."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model.layers.positions import RelativeBias, RelativeBuckets, bucket_of_distance
from tests.references import read_arrays


@pytest.mark.parametrize("direction", ["bi", "uni"])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (20, 60), (32, 64), (16, 300), (8, 20)])
def test_buckets_are_the_reference_s(golden, num_buckets, max_distance, direction):
    reference = read_arrays(golden / "models" / "units" / "io.npz")
    config = RelativeBuckets(num_buckets=num_buckets, max_distance=max_distance)
    actual = bucket_of_distance(reference["bucket_rel"], config, direction == "bi")
    np.testing.assert_array_equal(actual, reference[f"bucket_{num_buckets}_{max_distance}_{direction}"])


def test_single_distances_then_logarithms_then_one_bucket_for_all_the_rest():
    config = RelativeBuckets()
    buckets = bucket_of_distance(-np.arange(400), config, False)
    np.testing.assert_array_equal(buckets[:16], np.arange(16))
    assert (np.diff(buckets) >= 0).all()
    assert (buckets[113:] == 31).all()
    assert buckets[112] == 30
    assert bucket_of_distance(np.array([5]), config, False) == 0


@pytest.mark.parametrize("first_query", [0, 3])
def test_the_bias_depends_on_the_distance_only(first_query):
    config = RelativeBuckets(num_buckets=8, max_distance=12)
    bias = RelativeBias(config, num_heads=2, key=jax.random.key(0))
    queries = jnp.arange(first_query, first_query + 4)
    result = bias(queries, jnp.arange(9), 9, bidirectional=True)
    assert result.shape == (1, 2, 4, 9)
    distances = np.arange(9)[None] - np.asarray(queries)[:, None]
    expected = np.asarray(bias.table[...])[:, bucket_of_distance(distances, config, True)]
    np.testing.assert_array_equal(result[0], expected)


@pytest.mark.parametrize("fields", [{"num_buckets": 2}, {"num_buckets": 32, "max_distance": 8}])
def test_impossible_buckets_are_refused(fields):
    with pytest.raises(ValueError, match="buckets and a larger distance than"):
        RelativeBuckets(**fields)
