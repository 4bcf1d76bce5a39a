"""Normalisation of activations."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class RMSNorm(nnx.Module):
    """Divides by the root mean square and scales: no mean, no bias (Zhang and Sennrich 2019, arXiv:1910.07467)."""

    def __init__(self, model_dim: int, *, epsilon: float):
        self.scale = nnx.Param(jnp.ones((model_dim,), jnp.float32), axes=("norm",))
        self.epsilon = epsilon

    def __call__(self, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
        wide = x.astype(jnp.float32)  # squares of bfloat16 lose most of their digits
        normalised = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + self.epsilon)
        return normalised.astype(x.dtype) * self.scale[...][None, None].astype(x.dtype)
