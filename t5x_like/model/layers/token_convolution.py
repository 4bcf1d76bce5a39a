"""Convolution over neighboring tokens next to a block: DeBERTa v2's n-gram induced input encoding.

https://arxiv.org/abs/2006.03654, and the authors' code, which has it after the first block.
"""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.feed_forward import ACTIVATIONS, Activation
from t5x_like.model.layers.linear import Initializer
from t5x_like.model.layers.norm import NormConfig


@config_class
class TokenConvolutionConfig:
    """A convolution of a block's inputs, added to its outputs: ``norm(outputs + activation(conv(inputs)))``.

    Attributes:
      kernel_size: Tokens that are combined, the token itself in the middle.
      num_groups: Groups of features, each convolved by itself.
      activation: Nonlinearity.
    """

    kernel_size: int
    num_groups: int = 1
    activation: Activation = "tanh"

    def __post_init__(self) -> None:
        if self.kernel_size < 1 or self.kernel_size % 2 == 0:
            raise ValueError(
                f"a convolution over {self.kernel_size} tokens has no middle; give an odd number"
            )
        if self.num_groups < 1:
            raise ValueError(f"num_groups is {self.num_groups}; give a positive number")


class TokenConvolution(nnx.Module):
    """The convolution; tokens of other examples and padding count as zeros."""

    def __init__(
        self,
        config: TokenConvolutionConfig,
        model_dim: int,
        norm: NormConfig,
        *,
        key: Key[Array, ""],
        init: Initializer,
    ):
        if model_dim % config.num_groups:
            raise ValueError(
                f"model_dim={model_dim} doesn't divide among num_groups={config.num_groups} of the convolution"
            )
        shape = (config.kernel_size, model_dim // config.num_groups, model_dim)
        self.kernel = nnx.Param(init.draw(key, shape), axes=("positions", "embed", "mlp"))
        self.bias = nnx.Param(jnp.zeros((model_dim,), jnp.float32), axes=("norm",))
        self.norm = norm.build(model_dim)
        self.config = config

    def __call__(
        self,
        inputs: Float[Array, "B L D"],
        outputs: Float[Array, "B L D"],
        segment_ids: Int[Array, "B L"],
        *,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B L D"]:
        """Return the block's outputs with the convolution of its inputs.

        Args:
          inputs: Inputs of the block.
          outputs: Outputs of the block.
          segment_ids: Examples of the tokens; 0 for padding.
          dropout_rate: Dropout before the nonlinearity.
          dropout_key: ``None`` for no dropout.
        """
        convolved = dropout(self._convolve(inputs, segment_ids), dropout_rate, dropout_key, shared_dim=1)
        return self.norm(outputs + ACTIVATIONS[self.config.activation](convolved))

    def _convolve(self, x: Float[Array, "B L D"], segment_ids: Int[Array, "B L"]) -> Float[Array, "B L D"]:
        size, groups = self.config.kernel_size, self.config.num_groups
        kernel = self.kernel[...].astype(x.dtype)
        kernel = kernel.reshape(size, kernel.shape[1], groups, -1)
        reach, length = size // 2, x.shape[1]
        padded = jnp.pad(x, ((0, 0), (reach, reach), (0, 0)))
        # Padding has a segment of its own here: it is no neighbor even of padding.
        neighbors = jnp.pad(segment_ids, ((0, 0), (reach, reach)), constant_values=-1)
        total = jnp.zeros_like(x)
        for tap in range(size):
            is_near = (neighbors[:, tap : tap + length] == segment_ids) & (segment_ids > 0)
            near = jnp.where(is_near[..., None], padded[:, tap : tap + length], 0)
            split = near.reshape(*x.shape[:2], groups, -1)
            total = total + jnp.einsum("blgi,igo->blgo", split, kernel[tap]).reshape(x.shape)
        return total + self.bias[...].astype(x.dtype)[None, None]
