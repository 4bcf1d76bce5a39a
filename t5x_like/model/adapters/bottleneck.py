"""Adapter layers: small feed-forward layers inside of residual connections (Houlsby et al. 2019).

https://arxiv.org/abs/1902.00751. Raffel et al. 2020, §3.5.1, place one after each feed-forward layer, Houlsby et al.
one after attention too.
"""

from typing import ClassVar, Literal

import jax
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model.adapters.targets import key_for, num_stacked
from t5x_like.model.layers.block import Block
from t5x_like.model.layers.feed_forward import ACTIVATIONS, Activation
from t5x_like.model.layers.linear import Linear, Normal
from t5x_like.model.layers.modules import modules_of
from t5x_like.model.layers.relative_stack import RelativeBlock

_STDDEV = 1e-2  # of the first layer: the paper's (§3.6) range of robust values ends there


@config_class
class BottleneckAdapter:
    """Adds ``x + up(activation(down(x)))`` to the outputs of layers, before their residual connection.

    Weights are ``<block>/feed_forward_residual/adapter/{down,up}/{kernel,bias}``, or those of ``attention_residual``,
    ``self_attention_residual`` and ``cross_attention_residual``. Kernels of ``up`` are initially 0, so that a fresh
    adapter changes nothing. Norms train too.

    Attributes:
      inner_dim: Inner width.
      activation: Nonlinearity.
      after: Layers that an adapter follows: ``("feed_forward",)`` as T5, ``("attention", "feed_forward")`` as Houlsby
        et al.; attention includes cross-attention.
    """

    inner_dim: int = 64
    activation: Activation = "relu"
    after: tuple[Literal["attention", "feed_forward"], ...] = ("feed_forward",)

    adds: ClassVar[str] = "layers with a nonlinearity"

    def __post_init__(self) -> None:
        if self.inner_dim < 1:
            raise ValueError(f"inner_dim is {self.inner_dim}; give a positive number")
        if not self.after or len(set(self.after)) < len(self.after):
            raise ValueError(
                f"after is {self.after}; give ('feed_forward',), ('attention',), or both, each once"
            )
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is {self.activation!r}; choose one of {', '.join(ACTIVATIONS)}")

    @property
    def trainable(self) -> tuple[str, ...]:
        """Patterns of the weights that train: adapters, which are inside of residuals as norms are, and other norms."""
        return ("*_residual/*", "*/final_norm/*", "*/norm/*", "*/query_norm/*", "*/key_norm/*")

    def attach(self, model: nnx.Module, key: Key[Array, ""]) -> nnx.Module:
        """Give the chosen layers fresh adapters; returns the model."""
        for path, block in modules_of(model, Block, RelativeBlock):
            for name in ("attention", "self_attention", "cross_attention", "feed_forward"):
                layer = getattr(block, name, None)
                if layer is None or name.removeprefix("self_").removeprefix("cross_") not in self.after:
                    continue
                keys = jax.random.split(key_for(key, f"{path}/{name}"), num_stacked(layer))
                model_dim = block.config.model_dim
                getattr(block, f"{name}_residual").adapter = nnx.data(
                    jax.vmap(lambda key, model_dim=model_dim: Bottleneck(self, model_dim, key=key))(keys)
                )
        return model


class Bottleneck(nnx.Module):
    """The adapter of one layer: ``x + up(activation(down(x)))``."""

    def __init__(self, config: BottleneckAdapter, model_dim: int, *, key: Key[Array, ""]):
        self.down = Linear(
            model_dim, config.inner_dim, axes=("embed", "adapter"), key=key, init=Normal(_STDDEV), bias=True
        )
        self.up = Linear(
            config.inner_dim, model_dim, axes=("adapter", "embed"), key=key, init=Normal(0.0), bias=True
        )
        self.config = config

    def __call__(self, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
        return x + self.up(ACTIVATIONS[self.config.activation](self.down(x)))
