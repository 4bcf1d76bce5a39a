"""The position-wise feed-forward layer, plain or gated."""

from dataclasses import dataclass
from typing import Literal

import jax
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.linear import Linear

Activation = Literal["relu", "gelu_tanh"]

_ACTIVATIONS = {"relu": jax.nn.relu, "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True)}


@dataclass(frozen=True, kw_only=True)
class FeedForwardConfig:
    """``gated`` multiplies the activation with a second projection (Shazeer 2020, https://arxiv.org/abs/2002.05202)."""

    mlp_dim: int
    activation: Activation
    gated: bool


class FeedForward(nnx.Module):
    """``down(activation(up x))``, or ``down(activation(gate x) * up x)``."""

    def __init__(self, config: FeedForwardConfig, model_dim: int, *, key: Key[Array, ""]):
        gate_key, up_key, down_key = jax.random.split(key, 3)
        axes = ("embed", "mlp")
        self.gate = Linear(model_dim, config.mlp_dim, axes=axes, key=gate_key) if config.gated else None
        self.up = Linear(model_dim, config.mlp_dim, axes=axes, key=up_key)
        self.down = Linear(config.mlp_dim, model_dim, axes=("mlp", "embed"), key=down_key)
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        *,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B L D"]:
        activation = _ACTIVATIONS[self.config.activation]
        hidden_BLF = activation(self.up(x)) if self.gate is None else activation(self.gate(x)) * self.up(x)
        return self.down(dropout(hidden_BLF, dropout_rate, dropout_key, shared_dim=1))
