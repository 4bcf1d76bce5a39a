"""Transformer-XL's attention by content and by relative distance (Dai et al. 2019, §3.3).

https://arxiv.org/abs/1901.02860.

Shape letters here: M keys are those of the memory and then the L of the segment itself; R distances between them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.linear import Linear, Normal
from t5x_like.model.layers.masks import MASKED


@config_class
class RelativeAttentionConfig:
    """Attention by content and by distance.

    Attributes:
      num_heads: Attention heads.
      head_dim: Width of a head.
      segments: Adds a score for keys of the same and of another text segment (XLNet, Yang et al. 2019, §2.5).
    """

    num_heads: int
    head_dim: int
    segments: bool = False

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values: each has its own queries."""
        return self.num_heads


class RelativeKeysValues(NamedTuple):
    """Keys and values of tokens, and keys of distances."""

    keys: Float[Array, "B M H K"]
    values: Float[Array, "B M H K"]
    distance_keys: Float[Array, "R H K"]


class RelativeAttention(nnx.Module):
    """Attention with scores ``(q + u) k + (q + v) r``: keys ``r`` of distances, learned biases ``u`` and ``v``.

    Attributes:
      prefix: Returns learned keys and values at no distance, which all queries may attend to (see ``Attention``).
    """

    def __init__(
        self,
        config: RelativeAttentionConfig,
        model_dim: int,
        *,
        key: Key[Array, ""],
        init: Normal,
    ):
        keys = jax.random.split(key, 9)
        joined = config.num_heads * config.head_dim

        def project(key: Array) -> Linear:
            return Linear(model_dim, joined, axes=("embed", "joined_heads"), key=key, init=init)

        def bias(key: Array) -> nnx.Param:
            return nnx.Param(init.draw(key, (joined,)), axes=("joined_heads",))

        self.query, self.key, self.value, self.distance = map(project, keys[:4])
        self.out = Linear(joined, model_dim, axes=("joined_heads", "embed"), key=keys[4], init=init)
        self.content_bias, self.distance_bias = bias(keys[5]), bias(keys[6])
        self.segment_bias = bias(keys[7]) if config.segments else None
        self.segment_keys = (
            nnx.Param(init.draw(keys[8], (2, joined)), axes=("relpos_buckets", "joined_heads"))
            if config.segments
            else None
        )
        self.prefix: nnx.Module | None = None
        self.config = config

    def project_keys_values(
        self, x: Float[Array, "B M D"], distances: Float[Array, "R D"]
    ) -> RelativeKeysValues:
        """Return keys and values of hidden states, and keys of distances.

        Args:
          x: Hidden states, those of the memory first.
          distances: Encoded distances.
        """
        return RelativeKeysValues(
            self._heads(self.key(x)), self._heads(self.value(x)), self._heads(self.distance(distances))
        )

    def __call__(
        self,
        x: Float[Array, "B L D"],
        keys_values: RelativeKeysValues,
        *,
        mask: Bool[Array, "..."] | None = None,
        is_other_segment: Bool[Array, "B L M"] | None = None,
        zero_fully_masked: bool = False,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B L D"]:
        """Attend from ``x`` to ``keys_values``.

        Args:
          x: Inputs that queries are projected from.
          keys_values: Result of ``project_keys_values``.
          mask: ``False`` prevents attention; broadcasts to [B, H, L, M].
          is_other_segment: True where query and key belong to different text segments.
          zero_fully_masked: A query without visible keys gets 0. Otherwise it gets the average of all values, which
            would reveal tokens that the mask hides.
          dropout_rate: Dropout of attention weights.
          dropout_key: ``None`` for no dropout.
        """
        queries_BLHK = self._heads(self.query(x))
        scores_BHLM = self._content_scores(queries_BLHK, keys_values.keys) + self._distance_scores(
            queries_BLHK, keys_values
        )
        if self.segment_keys is not None and is_other_segment is not None:
            scores_BHLM = scores_BHLM + self._segment_scores(queries_BLHK, is_other_segment)
        scores_BHLM = scores_BHLM * self.config.head_dim**-0.5
        if mask is not None:
            scores_BHLM = jnp.where(mask, scores_BHLM, MASKED)
        if self.prefix is not None:
            return self._attend_with_prefix(
                queries_BLHK, keys_values, scores_BHLM, dropout_rate=dropout_rate, dropout_key=dropout_key
            )
        weights_BHLM = jax.nn.softmax(scores_BHLM, axis=-1).astype(x.dtype)
        if mask is not None and zero_fully_masked:
            weights_BHLM = jnp.where(mask.any(-1, keepdims=True), weights_BHLM, jnp.zeros((), x.dtype))
        weights_BHLM = named_activations.observe("probabilities", weights_BHLM)
        weights_BHLM = dropout(weights_BHLM, dropout_rate, dropout_key, shared_dim=2)
        averages_BLHK = jnp.einsum("bhlm,bmhk->bhlk", weights_BHLM, keys_values.values).swapaxes(1, 2)
        return self.out(averages_BLHK.reshape(*averages_BLHK.shape[:2], -1))

    def _attend_with_prefix(
        self,
        queries: Float[Array, "B L H K"],
        keys_values: RelativeKeysValues,
        scores: Float[Array, "B H L M"],
        *,
        dropout_rate: float,
        dropout_key: Key[Array, ""] | None,
    ) -> Float[Array, "B L D"]:
        """Attend to the prefix, by content alone, and to keys whose masked scores are given."""
        keys_BPHK, values_BPHK = (
            jnp.broadcast_to(
                self._heads(each.astype(queries.dtype)), (len(queries), each.shape[0], *queries.shape[2:])
            )
            for each in self.prefix()  # pyright: ignore[reportOptionalCall, reportCallIssue]
        )
        own_BHLP = self._content_scores(queries, keys_BPHK) * self.config.head_dim**-0.5
        weights = jax.nn.softmax(jnp.concatenate([own_BHLP, scores], axis=-1), axis=-1).astype(queries.dtype)
        weights = named_activations.observe("probabilities", weights)
        weights = dropout(weights, dropout_rate, dropout_key, shared_dim=2)
        values = jnp.concatenate([values_BPHK, keys_values.values.astype(queries.dtype)], axis=1)
        averages_BLHK = jnp.einsum("bhlm,bmhk->bhlk", weights, values).swapaxes(1, 2)
        return self.out(averages_BLHK.reshape(*averages_BLHK.shape[:2], -1))

    def _content_scores(
        self, queries: Float[Array, "B L H K"], keys: Float[Array, "B M H K"]
    ) -> Float[Array, "B H L M"]:
        queries = queries + self._bias(self.content_bias, queries)
        return jnp.einsum("blhk,bmhk->bhlm", queries, keys, preferred_element_type=jnp.float32)

    def _distance_scores(
        self, queries: Float[Array, "B L H K"], keys_values: RelativeKeysValues
    ) -> Float[Array, "B H L M"]:
        queries = queries + self._bias(self.distance_bias, queries)
        scores_BHLR = jnp.einsum(
            "blhk,rhk->bhlr", queries, keys_values.distance_keys, preferred_element_type=jnp.float32
        )
        return shift(scores_BHLR, num_keys=keys_values.keys.shape[1])

    def _segment_scores(
        self, queries: Float[Array, "B L H K"], is_other_segment: Bool[Array, "B L M"]
    ) -> Float[Array, "B H L M"]:
        assert self.segment_bias is not None
        assert self.segment_keys is not None
        queries = queries + self._bias(self.segment_bias, queries)
        keys_SHK = self._heads(self.segment_keys[...].astype(queries.dtype))
        same, other = jnp.einsum("blhk,shk->sbhl", queries, keys_SHK, preferred_element_type=jnp.float32)
        return jnp.where(is_other_segment[:, None], other[..., None], same[..., None])

    def _bias(self, bias: nnx.Param, like: Float[Array, "B L H K"]) -> Float[Array, "1 1 H K"]:
        return bias[...].astype(like.dtype).reshape(1, 1, *like.shape[2:])

    def _heads(self, joined: Float[Array, "*rows HK"]) -> Float[Array, "*rows H K"]:
        return joined.reshape(*joined.shape[:-1], -1, self.config.head_dim)


def shift(scores: Float[Array, "B H L R"], *, num_keys: int) -> Float[Array, "B H L M"]:
    """Convert scores by distance to scores by key: ``out[i, j] = scores[i, L - 1 - i + j]``.

    One reshape moves all rows (Dai et al. 2019, appendix B).

    Args:
      scores: Scores of queries for the distances of ``distances_between``.
      num_keys: Number of keys. Those beyond the last distance get scores that a mask must hide.
    """
    length, num_distances = scores.shape[-2:]
    padded = jnp.pad(scores, ((0, 0), (0, 0), (0, 0), (0, 1)))
    # One column wider than a row of the result, so that each row starts one column earlier than the one before.
    flat = padded.reshape(*scores.shape[:2], -1)[..., length - 1 : length - 1 + length * num_distances]
    return flat.reshape(scores.shape)[..., :num_keys]


def distances_between(num_queries: int, num_keys: int, *, bidirectional: bool) -> np.ndarray:
    """Return the distances [R] from queries to keys, from the farthest earlier key on; negative for later keys.

    Args:
      num_queries: Number of queries.
      num_keys: Number of keys; the last one is that of the last query.
      bidirectional: Include distances to later keys.
    """
    return np.arange(num_keys - 1, -num_queries if bidirectional else -1, -1)


def encode_distances(
    distances: np.ndarray, model_dim: int, dtype: jnp.dtype, *, max_distance: int | None = None
) -> Float[Array, "R D"]:
    """Return sines, then cosines, of distances.

    Args:
      distances: Distances [R].
      model_dim: Number of sines and cosines, which must be even.
      dtype: Type of the result.
      max_distance: Longer distances count as it; None for no limit.
    """
    if model_dim % 2:
        raise ValueError(f"model_dim is {model_dim}; sines and cosines of distances need an even one")
    if max_distance is not None:
        distances = np.clip(distances, -max_distance, max_distance)
    exponents = np.arange(0, model_dim, 2, dtype=np.float32) / np.float32(model_dim)
    frequencies = np.float32(1.0) / np.float32(10_000.0) ** exponents
    angles = jnp.asarray(distances, jnp.float32)[:, None] * frequencies[None]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1).astype(dtype)


def past_mask(num_queries: int, num_keys: int, *, reach: int | None) -> Bool[Array, "1 1 L M"]:
    """Return True where the key is at most ``reach`` places before the query, or the query itself.

    Args:
      num_queries: Number of queries, which are the last of the keys.
      num_keys: Number of keys.
      reach: ``None`` for no limit.
    """
    queries = np.arange(num_keys - num_queries, num_keys)
    distances_LM = queries[:, None] - np.arange(num_keys)[None]
    visible_LM = (distances_LM >= 0) & (distances_LM <= (num_keys if reach is None else reach))
    return jnp.asarray(visible_LM)[None, None]
