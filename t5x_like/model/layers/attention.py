"""Multi-head attention (Vaswani et al. 2017, §3.2) with grouped keys and values (Ainslie et al. 2023)."""

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.layers.attention_blocks import scale_and_cap
from t5x_like.model.layers.attention_implementations import (
    IN_BLOCKS,
    AttentionImplementation,
    AttentionShape,
    check_cudnn,
    check_pallas,
)
from t5x_like.model.layers.blockwise_attention import blockwise_attention
from t5x_like.model.layers.cudnn_attention import cudnn_attention
from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.model.layers.masks import MASKED, AttentionMask, SlidingWindow, as_array, as_mask
from t5x_like.model.layers.norm import Norm, NormConfig
from t5x_like.model.layers.pallas_attention import pallas_attention
from t5x_like.model.layers.positions import DistanceBias, RelativeBuckets
from t5x_like.model.layers.rotary import Rotary, rotate
from t5x_like.partitioning.activations import constrain_inner

Positions: TypeAlias = Rotary | RelativeBuckets


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
      in_bias: Adds a bias to the projections of queries, keys and values.
      out_bias: Adds a bias to the output projection.
      positions: Positions of this layer alone: rotary, or a relative-bias table of its own. ``None`` leaves them to
        the embeddings or the stack.
      window: Limits the keys that a query attends to; ``None`` for all.
    """

    num_heads: int
    head_dim: int
    num_kv_heads: int | None = None
    attention_scale: float | None = None
    attention_logit_soft_cap: float | None = None
    qk_norm: QKNormConfig | None = None
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

    @property
    def kv_heads(self) -> int:
        """``num_kv_heads``, or its default."""
        return self.num_kv_heads or self.num_heads

    @property
    def rotary(self) -> Rotary | None:
        """``positions`` where they are rotary."""
        return self.positions if isinstance(self.positions, Rotary) else None

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


class KeysValues(NamedTuple):
    """Keys and values that queries attend to."""

    keys: Float[Array, "B M G K"]
    values: Float[Array, "B M G K"]


class Attention(nnx.Module):
    """Multi-head attention of queries to any keys and values; mask and bias are arguments.

    Args:
      config: Heads, scale and positions.
      model_dim: Width of inputs and outputs.
      key: Random key of fresh weights.
      init: Distribution of fresh kernels.

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
    ):
        joined, joined_kv = config.num_heads * config.head_dim, config.kv_heads * config.head_dim
        query_key, key_key, value_key, out_key = jax.random.split(key, 4)
        init, query_init = init.of_attention(config.head_dim, config.scale)

        def project(width: int, axis: str, key: Array, init: Initializer) -> Linear:
            return Linear(model_dim, width, axes=("embed", axis), key=key, init=init, bias=config.in_bias)

        self.query = project(joined, "joined_heads", query_key, query_init)
        self.key = project(joined_kv, "joined_kv_heads", key_key, init)
        self.value = project(joined_kv, "joined_kv_heads", value_key, init)
        self.out = Linear(
            joined,
            model_dim,
            axes=("joined_heads", "embed"),
            key=out_key,
            init=init.of_residual(),
            bias=config.out_bias,
        )
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
        return KeysValues(self._apply_rotary(keys_BMGK, positions), self._heads(self.value(x)))

    def __call__(
        self,
        x: Float[Array, "B L D"],
        keys_values: KeysValues,
        *,
        positions: Int[Array, "B L"] | None = None,
        mask: AttentionMask | Bool[Array, "..."] | None = None,
        bias: DistanceBias | Float[Array, "..."] | None = None,
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
            for ``IN_BLOCKS``, otherwise an array.
          dropout_rate: Dropout of attention weights.
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
        if implementation in IN_BLOCKS:
            attend = blockwise_attention
            if implementation == "pallas":
                check_pallas(shape)
                attend = pallas_attention
            dropping = dropout_rate, dropout_key
            return self._attend_in_blocks(
                attend, self.queries(x, positions), keys_values, mask, bias, dropping
            )
        assert not isinstance(bias, DistanceBias), "an array is needed where attention is not blockwise"
        if implementation == "cudnn":
            check_cudnn(shape)
            return self._attend_by_cudnn(self.queries(x, positions), keys_values, mask, bias)
        visible = as_array(mask, num_queries=x.shape[1], num_keys=keys_values.keys.shape[1])
        if self.prefix is not None:
            keys_values, visible, bias = self._with_prefix(keys_values, visible, bias)
        scores_BHLM = self.scores(self.queries(x, positions), keys_values.keys.astype(x.dtype))
        if bias is not None:
            scores_BHLM = scores_BHLM + bias
        if visible is not None:
            scores_BHLM = jnp.where(visible, scores_BHLM, MASKED)
        weights_BHLM = jax.nn.softmax(scores_BHLM, axis=-1).astype(x.dtype)
        weights_BHLM = named_activations.observe("probabilities", weights_BHLM)
        weights_BHLM = dropout(weights_BHLM, dropout_rate, dropout_key, shared_dim=2)
        return self.out(self.combine_values(weights_BHLM, keys_values.values.astype(x.dtype)))

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
        # Heads that share a key lie next to each other: J of them in each of the G groups.
        queries_BLGJK = queries.reshape(*queries.shape[:2], keys.shape[2], -1, queries.shape[-1])
        scores_BGJLM = jnp.einsum(
            "bgjlk,bmgk->bgjlm",
            queries_BLGJK.transpose(0, 2, 3, 1, 4),
            keys,
            preferred_element_type=jnp.float32,
        )
        scores_BHLM = scores_BGJLM.reshape(scores_BGJLM.shape[0], -1, *scores_BGJLM.shape[3:])
        return scale_and_cap(scores_BHLM, self.config.scale, self.config.attention_logit_soft_cap)

    def combine_values(
        self, weights: Float[Array, "B H L M"], values: Float[Array, "B M G K"]
    ) -> Float[Array, "B L HK"]:
        """Return each head's weighted average of values, heads concatenated.

        Args:
          weights: Weights after the softmax.
          values: Values, which several heads may share.
        """
        weights_BGJLM = weights.reshape(weights.shape[0], values.shape[2], -1, *weights.shape[2:])
        averages_BGJLK = jnp.einsum("bgjlm,bmgk->bgjlk", weights_BGJLM, values)
        averages_BLGJK = averages_BGJLK.transpose(0, 3, 1, 2, 4)
        return constrain_inner(averages_BLGJK.reshape(*averages_BLGJK.shape[:2], -1), -1)

    def _attend_in_blocks(
        self,
        attend: Callable[..., Array],
        queries: Float[Array, "B L H K"],
        keys_values: KeysValues,
        mask: AttentionMask | Array | None,
        bias: DistanceBias | Array | None,
        dropping: tuple[float, Array | None],
    ) -> Float[Array, "B L D"]:
        """Attend by ``attend``, without an array of all scores; other arguments are those of a call."""
        assert bias is None or isinstance(bias, DistanceBias), "blocks need a bias by distance"
        prefix = self.prefix_keys_values(len(queries))
        if prefix is not None:
            keys_values = _joined(prefix, keys_values)
        keys, values = (each.astype(queries.dtype) for each in keys_values)
        keep = None
        if dropping[1] is not None and dropping[0]:
            kept = jnp.ones((len(queries), queries.shape[2], 1, keys.shape[1]), queries.dtype)
            keep = dropout(kept, *dropping)[:, :, 0]
        averages_BLHK = attend(
            queries,
            keys,
            values,
            mask=as_mask(mask),
            bias=bias,
            keep=keep,
            num_prefix=0 if prefix is None else prefix.keys.shape[1],
            scale=self.config.scale,
            soft_cap=self.config.attention_logit_soft_cap,
        )
        return self.out(averages_BLHK.reshape(*queries.shape[:2], -1))

    def _attend_by_cudnn(
        self,
        queries: Float[Array, "B L H K"],
        keys_values: KeysValues,
        mask: AttentionMask | Array | None,
        bias: Array | None,
    ) -> Float[Array, "B L D"]:
        """Attend by cuDNN's kernels; arguments are those of a call."""
        if self.prefix is not None:
            visible = as_array(mask, num_queries=queries.shape[1], num_keys=keys_values.keys.shape[1])
            keys_values, mask, bias = self._with_prefix(keys_values, visible, bias)
        keys, values = (each.astype(queries.dtype) for each in keys_values)
        averages_BLHK = cudnn_attention(queries, keys, values, mask=mask, bias=bias, scale=self.config.scale)
        return self.out(averages_BLHK.reshape(*queries.shape[:2], -1))

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

    def _with_prefix(
        self, keys_values: KeysValues, mask: Array | None, bias: Array | None
    ) -> tuple[KeysValues, Array | None, Array | None]:
        """Put the prefix before keys and values, visible to all queries, without bias."""
        prefix = self.prefix_keys_values(len(keys_values.keys))
        assert prefix is not None
        length, num_keys = prefix.keys.shape[1], keys_values.keys.shape[1]

        def extended(rows: Array | None, value: bool | float) -> Array | None:
            if rows is None:
                return None
            rows = jnp.broadcast_to(rows, (*rows.shape[:-1], num_keys))
            return jnp.pad(rows, ((0, 0),) * (rows.ndim - 1) + ((length, 0),), constant_values=value)

        return _joined(prefix, keys_values), extended(mask, True), extended(bias, 0.0)

    def _normed_heads(self, joined: Float[Array, "B L HK"], norm: Norm | None) -> Float[Array, "B L H K"]:
        if norm is None or self.config.qk_norm is None:
            return self._heads(joined)
        by_head = self.config.qk_norm.over == "head"
        return norm(self._heads(joined)) if by_head else self._heads(norm(joined))

    def _heads(self, joined: Float[Array, "B L HK"]) -> Float[Array, "B L H K"]:
        return constrain_inner(joined.reshape(*joined.shape[:2], -1, self.config.head_dim), 2)


def _joined(prefix: KeysValues, others: KeysValues) -> KeysValues:
    """Put a prefix before other keys and values."""
    pairs = zip(prefix, others, strict=True)
    return KeysValues(*(jnp.concatenate([first.astype(then.dtype), then], axis=1) for first, then in pairs))
