"""Multi-head latent attention: keys and values of all heads come from one short vector of each token.

DeepSeek-AI 2024, DeepSeek-V2, https://arxiv.org/abs/2405.04434, §2.1. Letters beyond ``shapes.py``: C width of the
latent vectors, N and R parts of a query or key without and with rotary positions, KV width of a head's values.
"""

from typing import Any, ClassVar, TypeAlias

import jax
import jax.export
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.attend import KeysValues, attend
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.attention_implementations import AttentionImplementation, AttentionShape
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.model.layers.masks import AttentionMask
from t5x_like.model.layers.norm import NormConfig, RMSNormConfig
from t5x_like.model.layers.positions import DistanceBias
from t5x_like.model.layers.rotary import Rotary, rotate
from t5x_like.partitioning.activations import constrain_inner


@config_class
class LatentAttentionConfig:
    """Multi-head latent attention. Names of widths are those of Hugging Face.

    Attributes:
      num_heads: Heads of queries, keys and values.
      q_lora_rank: Width of the vector that a token's queries come from; ``None`` takes them from its hidden state.
      kv_lora_rank: Width of the latent vector, which keys and values come from and a cache keeps.
      qk_nope_head_dim: Part of each head's queries and keys without positions.
      v_head_dim: Width of a head's values.
      positions: Rotary positions of the other part of queries and keys. That of keys is the same in all heads.
      attention_scale: Multiplies scores; ``None`` is the width of a head's queries to the power of -0.5.
      bias: Adds a bias to the projections from and to hidden states, but to no direct one of queries.
      norm: Type of the norms of both vectors.
    """

    kv_heads: ClassVar[int] = 1
    window: ClassVar[None] = None
    attention_logit_soft_cap: ClassVar[None] = None

    num_heads: int
    q_lora_rank: int | None = None
    kv_lora_rank: int
    qk_nope_head_dim: int
    v_head_dim: int
    positions: Rotary
    attention_scale: float | None = None
    bias: bool = False
    norm: NormConfig = RMSNormConfig()

    def __post_init__(self) -> None:
        for name in ("num_heads", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; give a positive number")

    @property
    def head_dim(self) -> int:
        """Width of a head's queries and keys."""
        return self.qk_nope_head_dim + self.positions.rotated_dim

    @property
    def scale(self) -> float:
        """``attention_scale``, or its default."""
        return self.head_dim**-0.5 if self.attention_scale is None else self.attention_scale

    @property
    def cache_widths(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rotated part of keys and the latent vector, which all heads share."""
        return (1, self.positions.rotated_dim), (1, self.kv_lora_rank)

    def shape(
        self,
        dtype: jnp.dtype,
        lengths: tuple[int, int],
        *,
        dropout_rate: float = 0.0,
        has_prefix: bool = False,
        mask: AttentionMask | Bool[Array, "..."] | None = None,
    ) -> AttentionShape:
        """Return what decides which implementations compute this attention; see ``AttentionConfig.shape``.

        Args:
          dtype: Type of activations.
          lengths: Numbers of queries and keys.
          dropout_rate: Dropout of attention weights; 0.0 where nothing is dropped.
          has_prefix: Whether learned keys come before the others.
          mask: Mask of the attention.
        """
        return AttentionShape(
            head_dim=max(self.head_dim, self.v_head_dim),
            soft_cap=None,
            dtype=dtype,
            dropout_rate=dropout_rate,
            lengths=lengths,
            has_prefix=has_prefix,
            mask=mask,
        )


AttentionSlot: TypeAlias = AttentionConfig | LatentAttentionConfig


class LatentAttention(nnx.Module):
    """Attention to keys and values that are made from latent vectors.

    ``KeysValues`` of this layer are the rotated part of the keys, and the latent vectors: one head each. Many queries
    make keys and values of all heads from them (§2.1.2). For few queries, as in decoding, the matrices of keys and
    values are applied to queries and averages instead, and the latent vectors are attended to as they are.
    """

    def __init__(
        self,
        config: LatentAttentionConfig,
        model_dim: int,
        *,
        key: Key[Array, ""],
        init: Initializer = FanIn(),
    ):
        down_key, query_key, latent_key, keys_key, out_key = jax.random.split(key, 5)
        heads, rotated, rank = config.num_heads, config.positions.rotated_dim, config.q_lora_rank
        axes = ("embed", "embed_factor")
        self.query_down = (
            None
            if rank is None
            else Linear(model_dim, rank, axes=axes, key=down_key, init=init, bias=config.bias)
        )
        self.query_norm = None if rank is None else config.norm.build(rank)
        self.query = Linear(
            rank or model_dim,
            heads * config.head_dim,
            axes=("embed_factor" if rank else "embed", "joined_heads"),
            key=query_key,
            init=init,
        )
        self.latent = Linear(
            model_dim,
            config.kv_lora_rank + rotated,
            axes=axes,
            key=latent_key,
            init=init,
            bias=config.bias,
        )
        self.latent_norm = config.norm.build(config.kv_lora_rank)
        self.key_value = Linear(
            config.kv_lora_rank,
            heads * (config.qk_nope_head_dim + config.v_head_dim),
            axes=("embed_factor", "joined_heads"),
            key=keys_key,
            init=init,
        )
        self.out = Linear(
            heads * config.v_head_dim,
            model_dim,
            axes=("joined_heads", "embed"),
            key=out_key,
            init=init.of_residual(),
            bias=config.bias,
        )
        self.prefix: nnx.Module | None = None
        self.config = config

    def project_keys_values(
        self, x: Float[Array, "B M D"], positions: Int[Array, "B M"] | None = None
    ) -> KeysValues:
        """Return the rotated part of keys, and normalized latent vectors.

        Args:
          x: Inputs of the attention layer.
          positions: Positions of the tokens.
        """
        assert positions is not None, "rotary attention needs positions"
        joined = self.latent(x)[:, :, None]
        latent, turned = jnp.split(joined, [self.config.kv_lora_rank], axis=-1)
        return KeysValues(rotate(turned, positions, self.config.positions), self.latent_norm(latent))

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
        """Attend from ``x`` to ``keys_values``; see ``Attention``.

        Args:
          x: Inputs that queries are projected from.
          keys_values: Result of ``project_keys_values``.
          positions: Positions of the queries.
          mask: ``False`` prevents attention; broadcasts to [B, 1, L, M].
          bias: Added to scores; broadcasts to [B, H, L, M].
          dropout_rate: Dropout of attention weights.
          dropout_key: ``None`` for no dropout.
          implementation: Computation of the weighted averages.
        """
        assert positions is not None, "rotary attention needs positions"
        config, lengths = self.config, (x.shape[1], keys_values.keys.shape[1])
        rate = 0.0 if dropout_key is None else dropout_rate
        queries_BLHN, queries_BLHR = self._queries(x, positions)
        others: dict[str, Any] = {
            "scale": config.scale,
            "soft_cap": None,
            "shape": config.shape(x.dtype, lengths, dropout_rate=rate, mask=mask),
            "mask": mask,
            "bias": bias,
            "dropout_rate": dropout_rate,
            "dropout_key": dropout_key,
            "implementation": implementation,
        }
        rotated, latent = (each.astype(x.dtype) for each in keys_values)
        if implementation == "plain" and self._has_few_queries(*lengths):
            return self.out(self._attend_to_latent(queries_BLHN, queries_BLHR, rotated, latent, others))
        joined = self.key_value(latent[:, :, 0])
        heads_BMHK = constrain_inner(joined.reshape(*joined.shape[:2], config.num_heads, -1), 2)
        keys_BMHN, values = jnp.split(heads_BMHK, [config.qk_nope_head_dim], axis=-1)
        same = jnp.broadcast_to(rotated, (*keys_BMHN.shape[:3], rotated.shape[-1]))
        keys = jnp.concatenate([keys_BMHN, same], axis=-1)
        queries = jnp.concatenate([queries_BLHN, queries_BLHR], axis=-1)
        return self.out(attend(queries, KeysValues(keys, values), **others))

    def _queries(self, x: Array, positions: Array) -> tuple[Float[Array, "B L H N"], Float[Array, "B L H R"]]:
        """Return both parts of the queries; the second is rotated."""
        if self.query_down is not None and self.query_norm is not None:
            x = self.query_norm(self.query_down(x))
        joined = self.query(x)
        heads = constrain_inner(joined.reshape(*joined.shape[:2], self.config.num_heads, -1), 2)
        still, turned = jnp.split(heads, [self.config.qk_nope_head_dim], axis=-1)
        return still, rotate(turned, positions, self.config.positions)

    def _attend_to_latent(
        self, queries_BLHN: Array, queries_BLHR: Array, rotated: Array, latent: Array, others: dict[str, Any]
    ) -> Float[Array, "B L HKV"]:
        """Return averages of values, computed from averages of latent vectors."""
        config, dtype = self.config, queries_BLHN.dtype
        kernel, _ = self.key_value.merged()
        of_heads = kernel.astype(dtype).reshape(config.kv_lora_rank, config.num_heads, -1)
        of_keys, of_values = jnp.split(of_heads, [config.qk_nope_head_dim], axis=-1)
        queries_BLHC = jnp.einsum("blhn,chn->blhc", queries_BLHN, of_keys)
        queries = jnp.concatenate([queries_BLHC, queries_BLHR], axis=-1)
        keys = jnp.concatenate([latent, rotated], axis=-1)
        averages = attend(queries, KeysValues(keys, latent), **others)
        averages_BLHC = averages.reshape(*averages.shape[:2], config.num_heads, -1)
        values = jnp.einsum("blhc,chv->blhv", averages_BLHC, of_values)
        return values.reshape(*values.shape[:2], -1)

    def _has_few_queries(self, num_queries: int, num_keys: int) -> bool:
        """Return whether fewer products are needed without keys and values of all heads."""
        if jax.export.is_symbolic_dim(num_queries) or jax.export.is_symbolic_dim(num_keys):
            return False
        if num_queries >= num_keys:
            return False
        config = self.config
        per_head = config.kv_lora_rank * (config.qk_nope_head_dim + config.v_head_dim)
        more_in_scores = 2 * config.kv_lora_rank - config.qk_nope_head_dim - config.v_head_dim
        return num_queries * (per_head + num_keys * more_in_scores) < num_keys * per_head
