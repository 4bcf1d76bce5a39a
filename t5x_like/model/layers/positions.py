"""T5's relative position bias: one learned number for each head and bucket of distances."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.config_class import config_class


@config_class
class RelativeBuckets:
    """Buckets of relative distances (Raffel et al. 2020, §2.1).

    Half of the buckets (of each direction, in bidirectional attention) are single distances. The others grow
    logarithmically.

    Attributes:
      num_buckets: Number of buckets.
      max_distance: Distance from which on all keys share the last bucket.
    """

    num_buckets: int = 32
    max_distance: int = 128

    def __post_init__(self) -> None:
        if self.num_buckets < 4 or self.max_distance <= self.num_buckets // 2:
            raise ValueError(
                f"num_buckets={self.num_buckets} with max_distance={self.max_distance}: give at least 4 buckets "
                f"and a larger distance than {self.num_buckets // 2}"
            )


class RelativeBias(nnx.Module):
    """Looks up the bias of each head for the distance between query and key."""

    def __init__(self, config: RelativeBuckets, *, num_heads: int, key: Key[Array, ""]):
        initialize = jax.nn.initializers.variance_scaling(1.0, "fan_avg", "uniform")
        self.table = nnx.Param(
            initialize(key, (num_heads, config.num_buckets)), axes=("heads", "relpos_buckets")
        )
        self.config = config

    def __call__(
        self, queries: Int[Array, " L"], keys: Int[Array, " M"], reach: int, *, bidirectional: bool
    ) -> Float[Array, "1 H L M"]:
        """Return the bias to add to scores.

        Args:
          queries: Positions of queries.
          keys: Positions of keys.
          reach: All distances are smaller than this.
          bidirectional: Later keys have buckets of their own; otherwise they share the query's own bucket.
        """
        # Numpy makes the table of buckets. In float32 on a device the logarithm at a bucket's edge (16, 32, 64) can
        # fall on either side, depending on how it is compiled.
        buckets = jnp.asarray(bucket_of_distance(np.arange(1 - reach, reach), self.config, bidirectional))
        distances_LM = keys[None, :] - queries[:, None]
        return self.table[...][:, buckets[distances_LM + (reach - 1)]][None]


def bucket_of_distance(distance: np.ndarray, config: RelativeBuckets, bidirectional: bool) -> np.ndarray:
    """Return the buckets of distances.

    Args:
      distance: Position of the key minus that of the query.
      config: Number and size of buckets.
      bidirectional: Later keys have buckets of their own; otherwise they are in bucket 0.
    """
    num_buckets, offset = config.num_buckets, np.zeros_like(distance)
    if bidirectional:
        num_buckets //= 2
        offset = np.where(distance > 0, num_buckets, 0)
        distance = np.abs(distance)
    else:
        distance = np.maximum(-distance, 0)
    exact = num_buckets // 2
    # In float32, as the reference implementations compute it, with the quotient of logarithms taken in this order.
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / exact) / np.float32(
        np.log(config.max_distance / exact)
    )
    logarithmic = exact + (ratio * (num_buckets - exact)).astype(np.int32)
    return (offset + np.where(distance < exact, distance, np.minimum(logarithmic, num_buckets - 1))).astype(
        np.int32
    )
