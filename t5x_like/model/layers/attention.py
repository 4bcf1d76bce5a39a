"""Multi-head attention (Vaswani et al. 2017, §3.2)."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.linear import Linear

# Far below every score, yet finite: a query with nothing to look at gets an average, not a not-a-number.
_MASKED = -1e10


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """``score_scale``: T5 leaves scores as they are and starts with smaller queries instead of dividing by sqrt(K)."""

    num_heads: int
    head_dim: int
    score_scale: Literal["inverse_sqrt", "none"] = "inverse_sqrt"


class KeysValues(NamedTuple):
    """What is looked at and what is found there."""

    keys: Float[Array, "B M H K"]
    values: Float[Array, "B M H K"]


class Attention(nnx.Module):
    """Looks from each query at all keys; the caller decides by mask and bias."""

    def __init__(self, config: AttentionConfig, model_dim: int, *, key: Key[Array, ""]):
        joined = config.num_heads * config.head_dim
        query_key, key_key, value_key, out_key = jax.random.split(key, 4)
        query_scale = 1.0 if config.score_scale == "inverse_sqrt" else config.head_dim**-0.5
        axes: tuple[str, str] = ("embed", "joined_heads")
        self.query = Linear(
            model_dim, joined, axes=axes, key=query_key, scale=query_scale, distribution="normal"
        )
        self.key = Linear(model_dim, joined, axes=axes, key=key_key, distribution="normal")
        self.value = Linear(model_dim, joined, axes=axes, key=value_key, distribution="normal")
        self.out = Linear(
            joined, model_dim, axes=("joined_heads", "embed"), key=out_key, distribution="normal"
        )
        self.config = config

    def keys_values(self, x: Float[Array, "B M D"]) -> KeysValues:
        """What ``x`` offers to be looked at."""
        return KeysValues(self._heads(self.key(x)), self._heads(self.value(x)))

    def __call__(
        self,
        x: Float[Array, "B L D"],
        seen: KeysValues,
        *,
        mask: Bool[Array, "..."] | None = None,
        bias: Float[Array, "..."] | None = None,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B L D"]:
        """``mask`` and ``bias`` broadcast to [B, H, L, M]. They stay apart until the softmax, which saves memory."""
        queries_BLHK = self._heads(self.query(x))
        scores_BHLM = jnp.einsum(
            "blhk,bmhk->bhlm", queries_BLHK, seen.keys.astype(x.dtype), preferred_element_type=jnp.float32
        )
        if self.config.score_scale == "inverse_sqrt":
            scores_BHLM = scores_BHLM * self.config.head_dim**-0.5
        if bias is not None:
            scores_BHLM = scores_BHLM + bias
        if mask is not None:
            scores_BHLM = jnp.where(mask, scores_BHLM, _MASKED)
        weights_BHLM = jax.nn.softmax(scores_BHLM, axis=-1).astype(x.dtype)
        weights_BHLM = dropout(weights_BHLM, dropout_rate, dropout_key, shared_dim=2)
        found_BLHK = jnp.einsum("bhlm,bmhk->blhk", weights_BHLM, seen.values.astype(x.dtype))
        return self.out(found_BLHK.reshape(*found_BLHK.shape[:2], -1))

    def _heads(self, joined: Float[Array, "B L HK"]) -> Float[Array, "B L H K"]:
        return joined.reshape(*joined.shape[:2], self.config.num_heads, self.config.head_dim)
