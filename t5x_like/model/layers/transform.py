"""Layers between a stack's output and a head's scores."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.feed_forward import ACTIVATIONS, Activation
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.model.layers.norm import NormConfig


@config_class
class Maxout:
    """Activation that takes the largest of several linear functions (Goodfellow et al. 2013).

    Attributes:
      num_pieces: Linear functions of each output.
    """

    num_pieces: int

    def __post_init__(self) -> None:
        if self.num_pieces < 1:
            raise ValueError(f"num_pieces of Maxout is {self.num_pieces}; give a positive number")


@config_class
class TransformConfig:
    """Layer before the scores: ``norm(activation(dense(x)))`` (Devlin et al. 2019, BERT's code).

    Attributes:
      dim: Width of the outputs.
      activation: Nonlinearity.
      norm: Norm of the outputs; ``None`` for none.
      bias: Adds a bias to the dense layer.
    """

    dim: int
    activation: Activation | Maxout
    norm: NormConfig | None = None
    bias: bool = True


class Transform(nnx.Module):
    """Computes ``norm(activation(dense(x)))``."""

    def __init__(
        self, config: TransformConfig, model_dim: int, *, key: Key[Array, ""], init: Initializer = FanIn()
    ):
        activation = config.activation
        width = config.dim * (activation.num_pieces if isinstance(activation, Maxout) else 1)
        self.dense = Linear(model_dim, width, axes=("embed", "mlp"), key=key, init=init, bias=config.bias)
        self.norm = None if config.norm is None else config.norm.build(config.dim)
        self.config = config

    def __call__(self, x: Float[Array, "*rows D"]) -> Float[Array, "*rows E"]:
        activation, x = self.config.activation, self.dense(x)
        if isinstance(activation, Maxout):
            x = jnp.max(x.reshape(*x.shape[:-1], self.config.dim, activation.num_pieces), axis=-1)
        else:
            x = ACTIVATIONS[activation](x)
        return x if self.norm is None else self.norm(x)
