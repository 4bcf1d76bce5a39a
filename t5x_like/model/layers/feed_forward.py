"""Position-wise feed-forward layer, plain or gated."""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.partitioning.activations import constrain_inner

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "tanh"]


@jax.custom_jvp
def exact_gelu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return ``x * Φ(x)`` (Hendrycks and Gimpel 2016, §2), computed in float32 and rounded once.

    The derivative is written out: JAX's own keeps several arrays of bfloat16, or computes each of them again.
    """
    wide = x.astype(jnp.float32)
    return (wide * _normal_cdf(wide)).astype(x.dtype)


@exact_gelu.defjvp
def _exact_gelu_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (tangent,) = primals, tangents
    wide = x.astype(jnp.float32)
    density = jnp.exp(-0.5 * wide * wide) * (2.0 * math.pi) ** -0.5
    derivative = (_normal_cdf(wide) + wide * density).astype(x.dtype)
    return exact_gelu(x), tangent * derivative


def _normal_cdf(x: Array) -> Array:
    return 0.5 * (1.0 + jax.lax.erf(x * 0.5**0.5))


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": jax.nn.relu,
    "gelu": exact_gelu,
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),  # Hendrycks and Gimpel 2016, §2
    "silu": jax.nn.silu,
    "tanh": jax.numpy.tanh,
}


@config_class
class FeedForwardConfig:
    """A feed-forward layer.

    Attributes:
      mlp_dim: Inner width.
      activation: Nonlinearity; ``"gelu"`` is exact, ``"gelu_tanh"`` its approximation by a tanh.
      gated: Multiplies the activation with a second projection (Shazeer 2020, https://arxiv.org/abs/2002.05202).
      bias: Adds a bias to all projections.
    """

    mlp_dim: int
    activation: Activation
    gated: bool = False
    bias: bool = False

    def __post_init__(self) -> None:
        if self.mlp_dim < 1:
            raise ValueError(f"mlp_dim is {self.mlp_dim}; give a positive number")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is {self.activation!r}; choose one of {', '.join(ACTIVATIONS)}")


class FeedForward(nnx.Module):
    """``down(activation(up x))``, or ``down(activation(gate x) * up x)``."""

    def __init__(
        self,
        config: FeedForwardConfig,
        model_dim: int,
        *,
        key: Key[Array, ""],
        init: Initializer = FanIn(),
    ):
        gate_key, up_key, down_key = jax.random.split(key, 3)

        def widen(key: Key[Array, ""]) -> Linear:
            return Linear(
                model_dim, config.mlp_dim, axes=("embed", "mlp"), key=key, init=init, bias=config.bias
            )

        self.gate = widen(gate_key) if config.gated else None
        self.up = widen(up_key)
        self.down = Linear(
            config.mlp_dim,
            model_dim,
            axes=("mlp", "embed"),
            key=down_key,
            init=init.of_residual(),
            bias=config.bias,
        )
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        *,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B L D"]:
        """Apply the layer; dropout acts on the inner activations."""
        x = named_activations.observe("inputs", x)
        hidden_BLF = named_activations.observe("activations", self.widen(x))
        return self.narrow(hidden_BLF, dropout_rate=dropout_rate, dropout_key=dropout_key)

    def widen(self, x: Float[Array, "B L D"]) -> Float[Array, "B L F"]:
        """Return the inner activations."""
        activation = ACTIVATIONS[self.config.activation]
        hidden_BLF = activation(self.up(x)) if self.gate is None else activation(self.gate(x)) * self.up(x)
        return constrain_inner(hidden_BLF, -1)

    def narrow(
        self,
        hidden: Float[Array, "B L F"],
        *,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B L D"]:
        """Return the layer's outputs, given its inner activations.

        Args:
          hidden: Inner activations.
          dropout_rate: Share of inner activations set to zero.
          dropout_key: None for no dropout.
        """
        return self.down(dropout(hidden, dropout_rate, dropout_key, shared_dim=1))
