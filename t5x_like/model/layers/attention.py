"""Multi-head attention (Vaswani et al. 2017, §3.2), with keys and values for groups of heads (Ainslie et al. 2023)."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.linear import FanIn, Initializer, Linear, into_stream
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import Norm, NormConfig, norm_of
from t5x_like.model.layers.positions import RelativeBuckets
from t5x_like.model.layers.rotary import Rotary, rotate

# Far below every score, yet finite: a query with nothing to look at gets an average, not a not-a-number.
MASKED = -1e10

Positions: TypeAlias = Rotary | RelativeBuckets


@dataclass(frozen=True, kw_only=True)
class QKNormConfig:
    """Norms of projected queries and keys, before they are rotated.

    Attributes:
      norm: the kind of both norms; each has its own weights.
      over: ``"head"`` norms each head by itself, with weights that all heads share (Qwen 3). ``"all_heads"`` norms the
        heads together, as one long vector (OLMo 2).
    """

    norm: NormConfig
    over: Literal["head", "all_heads"] = "head"

    def build(self, num_heads: int, head_dim: int) -> Norm:
        """The norm of ``num_heads`` heads."""
        return norm_of(self.norm, head_dim if self.over == "head" else num_heads * head_dim)


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """Multi-head attention.

    Attributes:
      num_heads: heads of queries.
      head_dim: the width of a head.
      num_kv_heads: heads of keys and values, each for a group of queries; as many as ``num_heads`` where ``None``.
      attention_scale: multiplies scores; ``head_dim ** -0.5`` where ``None``. T5 leaves scores as they are (1.0), and
        starts with smaller queries instead.
      attention_logit_soft_cap: bends scores into this range by a tanh (Gemma 2).
      qk_norm: norms queries and keys.
      in_bias: gives the projections of queries, keys and values a bias.
      out_bias: gives the output projection one.
      positions: those that act in this layer alone: rotations, or its own table of relative ones.
      window: the places that a query sees, where not all.
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
        if self.num_heads % self.kv_heads:
            raise ValueError(
                f"num_heads={self.num_heads} can't share num_kv_heads={self.kv_heads} keys and values evenly"
            )

    @property
    def kv_heads(self) -> int:
        """``num_kv_heads``, or its default."""
        return self.num_kv_heads or self.num_heads

    @property
    def scale(self) -> float:
        """``attention_scale``, or its default."""
        return self.head_dim**-0.5 if self.attention_scale is None else self.attention_scale


class KeysValues(NamedTuple):
    """Keys and values of the tokens that queries may attend to."""

    keys: Float[Array, "B M G K"]
    values: Float[Array, "B M G K"]


class Attention(nnx.Module):
    """Multi-head attention of queries to any keys and values; mask and bias come from the caller."""

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
        query_init = init
        if isinstance(init, FanIn):
            # T5X's: a normal distribution, and queries so small that unscaled scores start as scaled ones do.
            init = replace(init, distribution="normal")
            query_init = replace(init, scale=init.scale * config.head_dim**-0.5 / config.scale)

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
            init=into_stream(init),
            bias=config.out_bias,
        )
        norm = config.qk_norm
        self.query_norm = None if norm is None else norm.build(config.num_heads, config.head_dim)
        self.key_norm = None if norm is None else norm.build(config.kv_heads, config.head_dim)
        self.config = config

    def project_keys_values(
        self, x: Float[Array, "B M D"], positions: Int[Array, "B M"] | None = None
    ) -> KeysValues:
        """Keys and values of ``x``; keys are normed and rotated."""
        keys_BMGK = self._normed_heads(self.key(x), self.key_norm)
        return KeysValues(self.apply_rotary(keys_BMGK, positions), self._heads(self.value(x)))

    def __call__(
        self,
        x: Float[Array, "B L D"],
        keys_values: KeysValues,
        *,
        positions: Int[Array, "B L"] | None = None,
        mask: Bool[Array, "..."] | None = None,
        bias: Float[Array, "..."] | None = None,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B L D"]:
        """Attends from ``x`` to ``keys_values``.

        Args:
          x: what queries are made of.
          keys_values: as ``project_keys_values`` makes them.
          positions: of the queries, where they are rotated.
          mask: ``False`` prevents attention; broadcasts to [B, H, L, M].
          bias: added to scores; broadcasts likewise. It stays apart from the mask, which saves memory.
          dropout_rate: of the attention weights.
          dropout_key: ``None`` for no dropout.

        Returns:
          The heads' averages of values, projected back to the stream's width.
        """
        scores_BHLM = self.scores(self.queries(x, positions), keys_values.keys.astype(x.dtype))
        if bias is not None:
            scores_BHLM = scores_BHLM + bias
        if mask is not None:
            scores_BHLM = jnp.where(mask, scores_BHLM, MASKED)
        weights_BHLM = jax.nn.softmax(scores_BHLM, axis=-1).astype(x.dtype)
        weights_BHLM = dropout(weights_BHLM, dropout_rate, dropout_key, shared_dim=2)
        return self.out(self.combine_values(weights_BHLM, keys_values.values.astype(x.dtype)))

    def queries(
        self, x: Float[Array, "B L D"], positions: Int[Array, "B L"] | None = None
    ) -> Float[Array, "B L H K"]:
        """Queries of ``x``, normed and rotated."""
        queries_BLHK = self._normed_heads(self.query(x), self.query_norm)
        return self.apply_rotary(queries_BLHK, positions)

    def scores(
        self, queries: Float[Array, "B L H K"], keys: Float[Array, "B M G K"]
    ) -> Float[Array, "B H L M"]:
        """Scaled and capped scores, in float32."""
        # Heads that share a key lie next to each other: J of them in each of the G groups.
        queries_BLGJK = queries.reshape(*queries.shape[:2], keys.shape[2], -1, queries.shape[-1])
        scores_BGJLM = jnp.einsum(
            "blgjk,bmgk->bgjlm", queries_BLGJK, keys, preferred_element_type=jnp.float32
        )
        scores_BHLM = scores_BGJLM.reshape(scores_BGJLM.shape[0], -1, *scores_BGJLM.shape[3:])
        if self.config.scale != 1.0:
            scores_BHLM = scores_BHLM * self.config.scale
        if (cap := self.config.attention_logit_soft_cap) is not None:
            scores_BHLM = cap * jnp.tanh(scores_BHLM / cap)
        return scores_BHLM

    def combine_values(
        self, weights: Float[Array, "B H L M"], values: Float[Array, "B M G K"]
    ) -> Float[Array, "B L HK"]:
        """The heads' weighted averages of values, side by side."""
        weights_BGJLM = weights.reshape(weights.shape[0], values.shape[2], -1, *weights.shape[2:])
        found_BLGJK = jnp.einsum("bgjlm,bmgk->blgjk", weights_BGJLM, values)
        return found_BLGJK.reshape(*found_BLGJK.shape[:2], -1)

    def apply_rotary(
        self, heads: Float[Array, "B L H K"], positions: Int[Array, "B L"] | None
    ) -> Float[Array, "B L H K"]:
        if not isinstance(self.config.positions, Rotary):
            return heads
        assert positions is not None, "rotations need positions"
        return rotate(heads, positions, self.config.positions)

    def _normed_heads(self, joined: Float[Array, "B L HK"], norm: Norm | None) -> Float[Array, "B L H K"]:
        if norm is None or self.config.qk_norm is None:
            return self._heads(joined)
        by_head = self.config.qk_norm.over == "head"
        return norm(self._heads(joined)) if by_head else self._heads(norm(joined))

    def _heads(self, joined: Float[Array, "B L HK"]) -> Float[Array, "B L H K"]:
        return joined.reshape(*joined.shape[:2], -1, self.config.head_dim)
