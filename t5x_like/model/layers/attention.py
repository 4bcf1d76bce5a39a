"""Multi-head attention (Vaswani et al. 2017, §3.2) with grouped keys and values (Ainslie et al. 2023)."""

from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.attend import KeysValues, attend, average_values, scaled_scores
from t5x_like.model.layers.attention_implementations import AttentionImplementation, AttentionShape
from t5x_like.model.layers.disentangled_attention import (
    DistanceTerms,
    DistanceVectors,
    key_scores,
    query_scores,
)
from t5x_like.model.layers.dropout import dropout, fold
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.model.layers.masks import AttentionMask, SlidingWindow
from t5x_like.model.layers.norm import Norm, NormConfig
from t5x_like.model.layers.positions import DistanceBias, DistanceKeys, RelativeBuckets
from t5x_like.model.layers.relative_attention import shift
from t5x_like.model.layers.rotary import Rotary, rotate
from t5x_like.partitioning.activations import constrain_inner

Positions: TypeAlias = Rotary | RelativeBuckets | DistanceTerms


@config_class
class QKNormConfig:
    """Normalization of projected queries and keys, before rotary positions.

    Attributes:
      norm: Type of both norms; each has its own weights.
      over: ``"head"`` normalizes each head by itself with weights shared by all heads (Qwen 3). ``"all_heads"``
        normalizes the concatenated heads as one vector (OLMo 2).
    """

    norm: NormConfig
    over: Literal["head", "all_heads"] = "head"

    def build(self, num_heads: int, head_dim: int) -> Norm:
        """Return the norm for queries or keys of ``num_heads`` heads.

        Args:
          num_heads: Number of heads of the queries or keys.
          head_dim: Width of a head.
        """
        return self.norm.build(head_dim if self.over == "head" else num_heads * head_dim)


@config_class
class AttentionConfig:
    """Multi-head attention: ``softmax(scale * q k^T + bias) v`` for each head.

    Attributes:
      num_heads: Query heads.
      head_dim: Width of a head.
      num_kv_heads: Key and value heads, each shared by ``num_heads / num_kv_heads`` query heads; ``None`` gives each
        query head its own.
      attention_scale: Multiplies scores; ``None`` is ``head_dim ** -0.5``. T5 uses 1.0, and initializes queries
        smaller instead.
      attention_logit_soft_cap: Replaces scores ``s`` by ``cap * tanh(s / cap)`` (Gemma 2); ``None`` leaves them.
      qk_norm: Normalizes queries and keys; ``None`` leaves them.
      clip_qkv: Queries and keys, after their norms, and values are limited to ``[-clip_qkv, clip_qkv]`` (MosaicML's
        MPT, OLMoE); ``None`` leaves them.
      in_bias: Adds a bias to the projections of queries, keys and values.
      out_bias: Adds a bias to the output projection.
      positions: Positions of this layer alone: rotary, a relative-bias table of its own, or terms with the stack's
        vectors of distances. ``None`` leaves them to the embeddings or the stack.
      window: Limits the keys that a query attends to; ``None`` for all.
    """

    num_heads: int
    head_dim: int
    num_kv_heads: int | None = None
    attention_scale: float | None = None
    attention_logit_soft_cap: float | None = None
    qk_norm: QKNormConfig | None = None
    clip_qkv: float | None = None
    in_bias: bool = False
    out_bias: bool = False
    positions: Positions | None = None
    window: SlidingWindow | None = None

    def __post_init__(self) -> None:
        for name in ("num_heads", "head_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")
        if self.kv_heads < 1 or self.num_heads % self.kv_heads:
            raise ValueError(
                f"num_heads={self.num_heads} can't share num_kv_heads={self.kv_heads} keys and values evenly"
            )
        if self.clip_qkv is not None and self.clip_qkv <= 0:
            raise ValueError(f"clip_qkv is {self.clip_qkv}; give a positive number, or None for no limit")
        if self.distance_terms is not None and self.kv_heads != self.num_heads:
            raise ValueError(
                "scores with distances need as many key heads as query heads; leave num_kv_heads out"
            )

    @property
    def kv_heads(self) -> int:
        """``num_kv_heads``, or its default."""
        return self.num_kv_heads or self.num_heads

    @property
    def cache_widths(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Heads and their width, of keys and of values in a cache."""
        return (self.kv_heads, self.head_dim), (self.kv_heads, self.head_dim)

    @property
    def rotary(self) -> Rotary | None:
        """``positions`` where they are rotary."""
        return self.positions if isinstance(self.positions, Rotary) else None

    @property
    def distance_terms(self) -> DistanceTerms | None:
        """``positions`` where they are terms with vectors of distances."""
        return self.positions if isinstance(self.positions, DistanceTerms) else None

    @property
    def scale(self) -> float:
        """``attention_scale``, or its default."""
        return self.head_dim**-0.5 if self.attention_scale is None else self.attention_scale

    def shape(
        self,
        dtype: jnp.dtype,
        lengths: tuple[int, int],
        *,
        dropout_rate: float = 0.0,
        has_prefix: bool = False,
        mask: AttentionMask | Bool[Array, "..."] | None = None,
    ) -> AttentionShape:
        """Return what decides which implementations compute this attention.

        Args:
          dtype: Type of activations.
          lengths: Numbers of queries and keys.
          dropout_rate: Dropout of attention weights; 0.0 where nothing is dropped.
          has_prefix: Whether learned keys come before the others.
          mask: Mask of the attention.
        """
        return AttentionShape(
            head_dim=self.head_dim,
            soft_cap=self.attention_logit_soft_cap,
            dtype=dtype,
            dropout_rate=dropout_rate,
            lengths=lengths,
            has_prefix=has_prefix,
            mask=mask,
        )


class Attention(nnx.Module):
    """Multi-head attention of queries to any keys and values; mask and bias are arguments.

    Args:
      config: Heads, scale and positions.
      model_dim: Width of inputs and outputs.
      key: Random key of fresh weights.
      init: Distribution of fresh kernels.
      attended_dim: Width of what is attended to; ``None`` is ``model_dim``.

    Attributes:
      prefix: Returns learned keys and values that all queries may attend to, before all others (Li and Liang 2021);
        ``None`` for none.
    """

    def __init__(
        self,
        config: AttentionConfig,
        model_dim: int,
        *,
        key: Key[Array, ""],
        init: Initializer = FanIn(),
        attended_dim: int | None = None,
    ):
        joined, joined_kv = config.num_heads * config.head_dim, config.kv_heads * config.head_dim
        query_key, key_key, value_key, out_key = jax.random.split(key, 4)
        init, query_init = init.of_attention(config.head_dim, config.scale)

        def project(dim: int, width: int, axis: str, key: Array, init: Initializer) -> Linear:
            return Linear(dim, width, axes=("embed", axis), key=key, init=init, bias=config.in_bias)

        attended_dim = attended_dim or model_dim
        self.query = project(model_dim, joined, "joined_heads", query_key, query_init)
        self.key = project(attended_dim, joined_kv, "joined_kv_heads", key_key, init)
        self.value = project(attended_dim, joined_kv, "joined_kv_heads", value_key, init)
        self.out = Linear(
            joined,
            model_dim,
            axes=("joined_heads", "embed"),
            key=out_key,
            init=init.of_residual(),
            bias=config.out_bias,
        )
        terms = config.distance_terms
        own = () if terms is None or not terms.own_projections else terms.terms
        distance_keys = jax.random.fold_in(key, 1), jax.random.fold_in(key, 2)

        def project_distances(term: str, key: Array, init: Initializer) -> Linear | None:
            return project(model_dim, joined, "joined_heads", key, init) if term in own else None

        self.distance_key = project_distances("c2p", distance_keys[0], init)
        self.distance_query = project_distances("p2c", distance_keys[1], query_init)
        norm = config.qk_norm
        self.query_norm = None if norm is None else norm.build(config.num_heads, config.head_dim)
        self.key_norm = None if norm is None else norm.build(config.kv_heads, config.head_dim)
        self.prefix: nnx.Module | None = None
        self.config = config

    def project_keys_values(
        self, x: Float[Array, "B M D"], positions: Int[Array, "B M"] | None = None
    ) -> KeysValues:
        """Return keys and values of ``x``; keys are normalized and rotated.

        Args:
          x: Inputs of the attention layer.
          positions: Positions of the tokens, which rotary attention needs.
        """
        keys_BMGK = self._normed_heads(self.key(x), self.key_norm)
        values_BMGK = self._clipped(self._heads(self.value(x)))
        return KeysValues(self._apply_rotary(keys_BMGK, positions), values_BMGK)

    def __call__(
        self,
        x: Float[Array, "B L D"],
        keys_values: KeysValues,
        *,
        positions: Int[Array, "B L"] | None = None,
        mask: AttentionMask | Bool[Array, "..."] | None = None,
        bias: DistanceBias | DistanceKeys | Float[Array, "..."] | None = None,
        distances: DistanceVectors | None = None,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
        implementation: AttentionImplementation = "plain",
    ) -> Float[Array, "B L D"]:
        """Attend from ``x`` to ``keys_values``.

        Args:
          x: Inputs that queries are projected from.
          keys_values: Result of ``project_keys_values``.
          positions: Positions of the queries, which rotary attention needs.
          mask: ``False`` prevents attention; broadcasts to [B, 1, L, M].
          bias: Added to scores; broadcasts to [B, H, L, M]. Kept apart from the mask, which saves memory. By distance
            for ``IN_BLOCKS``, otherwise an array, or keys of distances for plain attention.
          distances: Vectors of distances, for ``DistanceTerms``, which are computed plainly.
          dropout_rate: Dropout of attention weights, and of vectors of distances.
          dropout_key: ``None`` for no dropout.
          implementation: Computation of the weighted averages.

        Returns:
          Weighted averages of values, projected to ``model_dim``.
        """
        shape = self.config.shape(
            x.dtype,
            (x.shape[1], keys_values.keys.shape[1]),
            dropout_rate=0.0 if dropout_key is None else dropout_rate,
            mask=mask,
        )
        queries = self.queries(x, positions)
        if isinstance(bias, DistanceKeys):
            bias = self._scores_of_distances(queries, bias)
        if distances is not None:
            vectors = dropout(distances.vectors, dropout_rate, fold(dropout_key, 1))
            bias = self._distance_scores(queries, keys_values.keys, distances._replace(vectors=vectors))
        averages = attend(
            queries,
            keys_values,
            scale=self.config.scale,
            soft_cap=self.config.attention_logit_soft_cap,
            shape=shape,
            prefix=None if self.prefix is None else self.prefix_keys_values(len(keys_values.keys)),
            mask=mask,
            bias=bias,
            dropout_rate=dropout_rate,
            dropout_key=dropout_key,
            implementation=implementation,
        )
        return self.out(averages)

    def queries(
        self, x: Float[Array, "B L D"], positions: Int[Array, "B L"] | None = None
    ) -> Float[Array, "B L H K"]:
        """Return normalized and rotated queries of ``x``.

        Args:
          x: Normalized hidden states.
          positions: Positions for rotation; None if tokens are at their positions.
        """
        queries_BLHK = self._normed_heads(self.query(x), self.query_norm)
        return self._apply_rotary(queries_BLHK, positions)

    def scores(
        self, queries: Float[Array, "B L H K"], keys: Float[Array, "B M G K"]
    ) -> Float[Array, "B H L M"]:
        """Return scaled and capped scores in float32.

        Args:
          queries: Rotated queries.
          keys: Rotated keys, which several heads may share.
        """
        config = self.config
        return scaled_scores(queries, keys, config.scale, config.attention_logit_soft_cap)

    def _distance_scores(
        self, queries: Float[Array, "B L H K"], keys: Float[Array, "B M H K"], distances: DistanceVectors
    ) -> Float[Array, "B H L M"] | None:
        """Return the scaled sum of the terms with distances; ``None`` where there are none."""
        assert self.config.distance_terms is not None
        total = None
        for term in self.config.distance_terms.terms:
            if term == "c2p":
                project = self.key if self.distance_key is None else self.distance_key
                vectors = self._heads(project(distances.vectors[None]))[0]
                scores = query_scores(queries, vectors, distances)
            else:
                project = self.query if self.distance_query is None else self.distance_query
                vectors = self._heads(project(distances.vectors[None]))[0]
                scores = key_scores(keys.astype(queries.dtype), vectors, distances)
            total = scores if total is None else total + scores
        return None if total is None else total * self.config.scale

    def _scores_of_distances(
        self, queries: Float[Array, "B L H K"], distance_keys: DistanceKeys
    ) -> Float[Array, "B H L L"]:
        """Return the part of scores that depends on the distance, for all keys of the queries' row."""
        scores_BHLR = jnp.einsum(
            "blhk,rk->bhlr",
            queries,
            distance_keys.vectors.astype(queries.dtype),
            preferred_element_type=jnp.float32,
        )
        return shift(scores_BHLR * self.config.scale, num_keys=queries.shape[1])

    def combine_values(
        self, weights: Float[Array, "B H L M"], values: Float[Array, "B M G K"]
    ) -> Float[Array, "B L HK"]:
        """Return each head's weighted average of values, heads concatenated.

        Args:
          weights: Weights after the softmax.
          values: Values, which several heads may share.
        """
        return average_values(weights, values)

    def _apply_rotary(
        self, heads: Float[Array, "B L H K"], positions: Int[Array, "B L"] | None
    ) -> Float[Array, "B L H K"]:
        """Rotate queries or keys, if the configuration has rotary positions."""
        rotary = self.config.rotary
        if rotary is None:
            return heads
        assert positions is not None, "rotary attention needs positions"
        return rotate(heads, positions, rotary)

    def prefix_keys_values(self, num_rows: int) -> KeysValues | None:
        """Return the prefix of every row; ``None`` where there is none.

        It is the same for all rows. Several prefixes belong to equal groups of rows, in order.
        """
        if self.prefix is None:
            return None

        def of_rows(vectors: Array) -> Array:
            heads = vectors.reshape(-1, vectors.shape[-2], self.config.kv_heads, self.config.head_dim)
            return jnp.repeat(heads, num_rows // len(heads), axis=0)

        return KeysValues(*map(of_rows, self.prefix()))  # pyright: ignore[reportCallIssue]

    def _normed_heads(self, joined: Float[Array, "B L HK"], norm: Norm | None) -> Float[Array, "B L H K"]:
        if norm is None or self.config.qk_norm is None:
            return self._clipped(self._heads(joined))
        by_head = self.config.qk_norm.over == "head"
        return self._clipped(norm(self._heads(joined)) if by_head else self._heads(norm(joined)))

    def _clipped(self, heads: Float[Array, "B L H K"]) -> Float[Array, "B L H K"]:
        clip = self.config.clip_qkv
        return heads if clip is None else jnp.clip(heads, -clip, clip)

    def _heads(self, joined: Float[Array, "B L HK"]) -> Float[Array, "B L H K"]:
        return constrain_inner(joined.reshape(*joined.shape[:2], -1, self.config.head_dim), 2)
