"""Weighted sum of a model's layers (Peters et al. 2018, §3.2, https://arxiv.org/abs/1802.05365)."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from t5x_like.config_class import config_class

# Keeps the norm of equal numbers finite; AllenNLP's value for float32.
_TINY = 1e-13


@config_class
class ScalarMixConfig:
    """Learned weights of layers.

    Attributes:
      num_layers: Number of layers to mix.
      layer_norm: Normalize each layer by one mean and variance of all real tokens of the batch and all features,
        without scale or bias, as AllenNLP does.
      l2_weight: Factor of the weights' squared norm, which is minimized next to the task's loss: lambda in §3.2.
    """

    num_layers: int
    layer_norm: bool = False
    l2_weight: float = 0.0

    def __post_init__(self) -> None:
        if self.num_layers < 1:
            raise ValueError(f"num_layers is {self.num_layers}; give a positive number")
        if not 0 <= self.l2_weight < math.inf:
            raise ValueError(f"l2_weight is {self.l2_weight}; give 0 or a positive number")


class ScalarMix(nnx.Module):
    """Computes ``gamma * sum_j softmax(s)_j * layer_j``. Fresh weights average the layers.

    Attributes:
      weights: ``s``, one number for each layer.
      gamma: Factor of the sum.
    """

    def __init__(self, config: ScalarMixConfig):
        self.weights = nnx.Param(jnp.zeros((config.num_layers,), jnp.float32), axes=("classes",))
        self.gamma = nnx.Param(jnp.ones((), jnp.float32), axes=())
        self.config = config

    def __call__(
        self, hidden: Float[Array, "N B L D"], real: Bool[Array, "B L"] | None = None
    ) -> Float[Array, "B L D"]:
        """Return the mix, in the type of ``hidden``; sums are float32.

        Args:
          hidden: Hidden states by layer.
          real: False for padding, which doesn't count in means and variances; ``None`` for no padding.

        Raises:
          ValueError: There is another number of layers.
        """
        if len(hidden) != self.config.num_layers:
            raise ValueError(
                f"{len(hidden)} layers are given, and num_layers is {self.config.num_layers}; give the hidden states "
                "of a model with as many"
            )
        layers = hidden.astype(jnp.float32)
        if self.config.layer_norm:
            layers = _normalized(layers, real)
        mixed = jnp.einsum("n,nbld->bld", jax.nn.softmax(self.weights[...]), layers)
        return (self.gamma[...] * mixed).astype(hidden.dtype)

    def penalty(self) -> Float[Array, ""]:
        """Return ``l2_weight`` times the squared norm of the weights."""
        return self.config.l2_weight * jnp.sum(jnp.square(self.weights[...]))


def _normalized(layers: Float[Array, "N B L D"], real: Bool[Array, "B L"] | None) -> Float[Array, "N B L D"]:
    """Return layers with mean 0 and variance 1 over real tokens and features."""
    real = jnp.ones(layers.shape[1:3], bool) if real is None else real
    counted_1BL1 = real.astype(jnp.float32)[None, ..., None]
    count = jnp.maximum(jnp.sum(counted_1BL1), 1.0) * layers.shape[-1]
    axes = (1, 2, 3)
    mean = jnp.sum(layers * counted_1BL1, axis=axes, keepdims=True) / count
    variance = jnp.sum(jnp.square(layers - mean) * counted_1BL1, axis=axes, keepdims=True) / count
    return (layers - mean) / jnp.sqrt(variance + _TINY)
