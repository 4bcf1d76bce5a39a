"""Normalization of activations."""

from typing import ClassVar, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from t5x_like.config_class import config_class


@config_class
class RMSNormConfig:
    """Root-mean-square norm: ``x / sqrt(mean(x^2) + epsilon) * scale`` (Zhang and Sennrich 2019).

    Attributes:
      epsilon: Added to the mean square.
      zero_centered: Multiplies by ``1 + weight`` with weights initially 0 (Gemma); otherwise by the weight.
    """

    bias: ClassVar[bool] = False

    epsilon: float = 1e-6
    zero_centered: bool = False

    def build(self, dim: int) -> "RMSNorm":
        """Return the norm over a last dimension of ``dim``."""
        return RMSNorm(self, dim)


@config_class
class LayerNormConfig:
    """Layer norm: ``(x - mean(x)) / sqrt(var(x) + epsilon) * scale + bias`` (Ba et al. 2016).

    Attributes:
      epsilon: Added to the variance.
      bias: Adds a bias; ModernBERT has none.
    """

    epsilon: float = 1e-5
    bias: bool = True

    def build(self, dim: int) -> "LayerNorm":
        """Return the norm over a last dimension of ``dim``."""
        return LayerNorm(self, dim)


NormConfig: TypeAlias = RMSNormConfig | LayerNormConfig


class RMSNorm(nnx.Module):
    """Root-mean-square norm over the last dimension, in float32 (https://arxiv.org/abs/1910.07467)."""

    def __init__(self, config: RMSNormConfig, dim: int):
        start = jnp.zeros if config.zero_centered else jnp.ones
        self.scale = nnx.Param(start((dim,), jnp.float32), axes=("norm",))
        self.config = config

    def __call__(self, x: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
        wide = x.astype(jnp.float32)  # squares of bfloat16 lose most of their digits
        normalized = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + self.config.epsilon)
        scale = _like(self.scale[...], x)
        if self.config.zero_centered:
            return (normalized * (1.0 + scale)).astype(x.dtype)  # 1 + w would lose w in bfloat16
        return normalized.astype(x.dtype) * scale.astype(x.dtype)


class LayerNorm(nnx.Module):
    """Layer norm over the last dimension, in float32 (https://arxiv.org/abs/1607.06450)."""

    def __init__(self, config: LayerNormConfig, dim: int):
        self.scale = nnx.Param(jnp.ones((dim,), jnp.float32), axes=("norm",))
        self.bias = nnx.Param(jnp.zeros((dim,), jnp.float32), axes=("norm",)) if config.bias else None
        self.config = config

    def __call__(self, x: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
        wide = x.astype(jnp.float32)
        centered = wide - jnp.mean(wide, axis=-1, keepdims=True)
        variance = jnp.mean(centered * centered, axis=-1, keepdims=True)
        normalized = centered * jax.lax.rsqrt(variance + self.config.epsilon) * _like(self.scale[...], x)
        if self.bias is not None:
            normalized = normalized + _like(self.bias[...], x)
        return normalized.astype(x.dtype)


Norm: TypeAlias = RMSNorm | LayerNorm


def _like(weight: Float[Array, " D"], x: Float[Array, "*rows D"]) -> Float[Array, "*ones D"]:
    return weight.reshape((1,) * (x.ndim - 1) + weight.shape)
