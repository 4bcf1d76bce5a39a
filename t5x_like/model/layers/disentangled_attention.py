"""DeBERTa's attention scores of content and distance (He et al. 2021, https://arxiv.org/abs/2006.03654, §3.1).

Content is a token's hidden state, a distance a learned vector that all layers of a stack share. To the product of two
contents a layer adds that of the query's content and the distance, of the key's content and the distance, or both.

Shape letters here: R vectors of distances; T distances in a row, from that of the last query and the first key on.
"""

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.relative_attention import shift

# A term of the scores: content of the query to the distance, or distance to the content of the key.
DistanceTerm = Literal["c2p", "p2c"]


@config_class
class DistanceTerms:
    """Terms of one layer's scores that depend on distances.

    Attributes:
      terms: ``"c2p"`` scores the query's content with a key of the distance, ``"p2c"`` the key's content with a query
        of the distance.
      own_projections: Keys and queries of distances have projections of their own; otherwise those of the contents.
    """

    terms: tuple[DistanceTerm, ...]
    own_projections: bool = False

    def __post_init__(self) -> None:
        if len(set(self.terms)) < len(self.terms):
            raise ValueError(f"terms {self.terms} repeat themselves; give each once")


@config_class
class DistanceTableConfig:
    """Learned vectors of distances, those of later keys apart from those of earlier ones.

    Attributes:
      max_distance: Without buckets, distances from here on share a vector. With buckets, the last one begins here.
      num_buckets: Vectors of each direction. Half of them are of single distances, and the others of ranges that grow
        logarithmically. ``None`` has one vector for each distance.
      norm: Norm of the vectors; ``None`` for none.
    """

    max_distance: int
    num_buckets: int | None = None
    norm: NormConfig | None = None

    def __post_init__(self) -> None:
        if self.max_distance < 1:
            raise ValueError(f"max_distance is {self.max_distance}; give a positive number")
        if self.num_buckets is None:
            return
        if self.num_buckets < 2 or self.max_distance < 2 or self.max_distance - 1 == self.num_buckets // 2:
            raise ValueError(
                f"num_buckets={self.num_buckets} with max_distance={self.max_distance}: give at least 2 of both, and "
                f"another distance than {self.num_buckets // 2 + 1}, where logarithms have no base"
            )

    @property
    def num_each_way(self) -> int:
        """Vectors of each direction."""
        return self.max_distance if self.num_buckets is None else self.num_buckets


class DistanceVectors(NamedTuple):
    """Vectors of distances, and those that belong to pairs of queries and keys.

    Attributes:
      vectors: All vectors.
      by_distance: Row of each distance, for queries and keys that are the same places; ``None`` where they aren't.
      by_pair: Row of each pair of a query and a key otherwise.
    """

    vectors: Float[Array, "R D"]
    by_distance: Int[Array, " T"] | None = None
    by_pair: Int[Array, "#B 1 L M"] | None = None


class DistanceTable(nnx.Module):
    """Table of the vectors, normalized where configured."""

    def __init__(self, config: DistanceTableConfig, model_dim: int, *, key: Key[Array, ""], init: Normal):
        rows = 2 * config.num_each_way
        self.table = nnx.Param(init.draw(key, (rows, model_dim)), axes=("relpos_buckets", "embed"))
        self.norm = None if config.norm is None else config.norm.build(model_dim)
        self.config = config

    def of_row(self, length: int, dtype: jnp.dtype) -> DistanceVectors:
        """Return what queries and keys of whole rows need.

        Args:
          length: Length of the rows.
          dtype: Type of the vectors.
        """
        distances = np.arange(length - 1, -length, -1)
        return DistanceVectors(self._vectors(dtype), by_distance=jnp.asarray(self._rows(distances)))

    def between(self, queries: Int[Array, " L"], keys: Int[Array, " M"], dtype: jnp.dtype) -> DistanceVectors:
        """Return what some queries and keys need.

        Args:
          queries: Places of queries.
          keys: Places of keys, all below their number.
          dtype: Type of the vectors.
        """
        reach = len(keys)
        rows = jnp.asarray(self._rows(np.arange(1 - reach, reach)))
        by_pair = rows[queries[:, None] - keys[None, :] + (reach - 1)]
        return DistanceVectors(self._vectors(dtype), by_pair=by_pair[None, None])

    def _vectors(self, dtype: jnp.dtype) -> Float[Array, "R D"]:
        vectors = self.table[...].astype(dtype)
        return vectors if self.norm is None else self.norm(vectors)

    def _rows(self, distances: np.ndarray) -> np.ndarray:
        size = self.config.num_each_way
        return np.clip(bucket_of(distances, self.config) + size, 0, 2 * size - 1).astype(np.int32)


def bucket_of(distances: np.ndarray, config: DistanceTableConfig) -> np.ndarray:
    """Return the buckets of distances, negative for later keys; without buckets the distances themselves.

    Args:
      distances: Position of the query minus that of the key.
      config: Number and size of buckets.
    """
    if config.num_buckets is None:
        return distances
    half, sizes = config.num_buckets // 2, np.abs(distances)
    # In float32 and in this order, as the reference implementation computes it.
    far = np.log(np.maximum(sizes, half).astype(np.float32) / np.float32(half))
    base = np.log(np.float32((config.max_distance - 1) / half))
    logarithmic = np.ceil(far / base * np.float32(half - 1)).astype(np.int64) + half
    return np.where(sizes <= half, distances, logarithmic * np.sign(distances))


def query_scores(
    queries: Float[Array, "B L H K"], keys: Float[Array, "R H K"], distances: DistanceVectors
) -> Float[Array, "B H L M"]:
    """Return the products of each query with the key of its distance to each key, in float32.

    Args:
      queries: Queries of contents.
      keys: Keys of all vectors of distances.
      distances: Rows of distances or of pairs.
    """
    if distances.by_distance is not None:
        by_distance_BHLT = _products(queries, keys[distances.by_distance])
        return shift(by_distance_BHLT, num_keys=queries.shape[1])
    assert distances.by_pair is not None
    return _chosen(_products(queries, keys), distances.by_pair)


def key_scores(
    keys: Float[Array, "B M H K"], queries: Float[Array, "R H K"], distances: DistanceVectors
) -> Float[Array, "B H L M"]:
    """Return the products of each key with the query of each query's distance to it, in float32.

    Args:
      keys: Keys of contents.
      queries: Queries of all vectors of distances.
      distances: Rows of distances or of pairs.
    """
    if distances.by_distance is not None:
        # Seen from a key, distances of queries grow along the row.
        by_distance_BHMT = _products(keys, queries[distances.by_distance[::-1]])
        return shift(by_distance_BHMT, num_keys=keys.shape[1]).swapaxes(-1, -2)
    assert distances.by_pair is not None
    return _chosen(_products(keys, queries), distances.by_pair.swapaxes(-1, -2)).swapaxes(-1, -2)


def _products(contents: Float[Array, "B L H K"], vectors: Float[Array, "T H K"]) -> Float[Array, "B H L T"]:
    return jnp.einsum("blhk,thk->bhlt", contents, vectors, preferred_element_type=jnp.float32)


def _chosen(scores: Float[Array, "B H L R"], rows: Int[Array, "#B 1 L M"]) -> Float[Array, "B H L M"]:
    rows = jnp.broadcast_to(rows, (*scores.shape[:3], rows.shape[-1]))
    return jnp.take_along_axis(scores, rows, axis=-1)
