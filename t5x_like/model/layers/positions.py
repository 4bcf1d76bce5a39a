"""Relative positions at the scores: T5's learned biases of distances, and learned keys of distances."""

from typing import NamedTuple, TypeAlias

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
      num_rows: Rows of the table, of which the first are used; ``None`` is one for each bucket.
    """

    num_buckets: int = 32
    max_distance: int = 128
    num_rows: int | None = None

    def __post_init__(self) -> None:
        if self.num_buckets < 4 or self.max_distance <= self.num_buckets // 2:
            raise ValueError(
                f"num_buckets={self.num_buckets} with max_distance={self.max_distance}: give at least 4 buckets "
                f"and a larger distance than {self.num_buckets // 2}"
            )
        if self.num_rows is not None and self.num_rows < self.num_buckets:
            raise ValueError(
                f"a table of {self.num_rows} relative positions for num_buckets={self.num_buckets}; give at least as "
                "many"
            )


@config_class
class RelativeKeys:
    """A learned key for each distance, which all heads and layers share (Shaw et al. 2018, §3.2).

    A query's score of a key has the query's product with the key of their distance added. Values have no positions.
    https://aclanthology.org/N18-2074

    Attributes:
      max_distance: Later keys at this distance or a longer one share a vector; earlier ones do from 1 less on.
    """

    max_distance: int

    def __post_init__(self) -> None:
        if self.max_distance < 1:
            raise ValueError(f"max_distance is {self.max_distance}; give 1 or more")


RelativePositions: TypeAlias = RelativeBuckets | RelativeKeys


class DistanceKeys(NamedTuple):
    """Keys of the distances from a query to a key of a row; distance 0 is in the middle."""

    vectors: Float[Array, "R K"]


class DistanceBias(NamedTuple):
    """Bias of each head for distances from a query to a key; distance 0 is in the middle."""

    values: Float[Array, "H R"]


class RelativeBias(nnx.Module):
    """Looks up the bias of each head for the distance between query and key."""

    def __init__(self, config: RelativeBuckets, *, num_heads: int, key: Key[Array, ""]):
        initialize = jax.nn.initializers.variance_scaling(1.0, "fan_avg", "uniform")
        self.table = nnx.Param(
            initialize(key, (num_heads, config.num_rows or config.num_buckets)),
            axes=("heads", "relpos_buckets"),
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
        distances_LM = keys[None, :] - queries[:, None]
        return self.table[...][:, self._buckets(reach, bidirectional)[distances_LM + (reach - 1)]][None]

    def between(
        self, queries: Int[Array, " L"], keys: Int[Array, " M"], *, bidirectional: bool, by_distance: bool
    ) -> Float[Array, "1 H L M"] | DistanceBias:
        """Return the bias for all keys of a row, as an array or by distance.

        Args:
          queries: Places of queries.
          keys: Places of keys, counted from 0.
          bidirectional: See a call.
          by_distance: Return the bias of each distance.
        """
        if by_distance:
            return DistanceBias(self.table[...][:, self._buckets(len(keys), bidirectional)])
        return self(queries, keys, len(keys), bidirectional=bidirectional)

    def _buckets(self, reach: int, bidirectional: bool) -> Int[Array, " R"]:
        # Numpy makes the table of buckets. In float32 on a device the logarithm at a bucket's edge (16, 32, 64) can
        # fall on either side, depending on how it is compiled.
        return jnp.asarray(bucket_of_distance(np.arange(1 - reach, reach), self.config, bidirectional))


class RelativeKeyTable(nnx.Module):
    """Looks up the keys of distances, for a stack that reads both ways."""

    def __init__(self, config: RelativeKeys, *, head_dim: int, key: Key[Array, ""]):
        table = 0.02 * jax.random.normal(key, (2 * config.max_distance, head_dim))
        self.table = nnx.Param(table, axes=("relpos_buckets", "kv"))
        self.config = config

    def between(
        self, queries: Int[Array, " L"], keys: Int[Array, " M"], *, bidirectional: bool, by_distance: bool
    ) -> DistanceKeys:
        """Return the keys of all distances in a row.

        Args:
          queries: Places of queries.
          keys: Places of keys, as many.
          bidirectional: Must be true.
          by_distance: Must be false: attention adds products with these keys, and no bias.

        Raises:
          ValueError: The stack reads in one direction.
        """
        if not bidirectional or len(queries) != len(keys):
            raise ValueError(
                "keys of relative positions are for stacks that read both ways; take RelativeBuckets"
            )
        assert not by_distance, "the stack computes attention plainly"
        reach = self.config.max_distance
        from_query = np.arange(1 - len(keys), len(keys))  # place of the key minus that of the query
        return DistanceKeys(self.table[...][np.clip(-from_query, -reach, reach - 1) + reach])


def relative_positions_of(
    config: RelativePositions | None, *, num_heads: int, head_dim: int, key: Key[Array, ""]
) -> RelativeBias | RelativeKeyTable | None:
    """Return fresh weights of relative positions; ``None`` for none.

    Args:
      config: Kind of positions.
      num_heads: Attention heads.
      head_dim: Width of a head.
      key: Random key.
    """
    if config is None:
        return None
    if isinstance(config, RelativeKeys):
        return RelativeKeyTable(config, head_dim=head_dim, key=key)
    return RelativeBias(config, num_heads=num_heads, key=key)


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
