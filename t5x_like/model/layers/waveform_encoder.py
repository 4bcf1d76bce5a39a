"""From waveforms to the inputs of an encoder: convolutions, a projection, and positions (Baevski et al. 2020, §2).

https://arxiv.org/abs/2006.11477. SpeechT5 adds sinusoids to the convolved positions (Ao et al. 2022, §2.2,
https://arxiv.org/abs/2110.07205).
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.convolution import (
    ChannelNorm,
    Convolution,
    ConvolutionConfig,
    WeightNormConvolution,
)
from t5x_like.model.layers.dropout import check_rate, dropout, fold
from t5x_like.model.layers.feed_forward import ACTIVATIONS, Activation
from t5x_like.model.layers.linear import Linear, Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.sinusoids import SinusoidalPositions, sinusoids_of
from t5x_like.model.layers.spec_augment import SpecAugmentConfig, hide_spans


@config_class
class WaveformEncoderConfig:
    """Convolutions over samples, whose outputs are frames.

    Attributes:
      channels: Outputs of each convolution.
      kernel_sizes: Samples or frames that an output depends on.
      strides: Samples or frames from one output to the next.
      bias: Convolutions have a bias.
      norm: ``"group"`` normalizes each channel of the first convolution over time. ``"layer"`` normalizes the channels
        of every frame, after each convolution.
      activation: Nonlinearity after each convolution and the convolved positions.
      norm_epsilon: Added to the variance before the projection.
      position_kernel_size: Frames that a convolved position depends on.
      position_groups: Groups of channels of that convolution.
      sinusoids: Sinusoids that are added; real frames are tokens 0, and padding is token 1.
      augment: Spans that training hides.
      dropout_rate: Dropout after the projection.
    """

    channels: tuple[int, ...]
    kernel_sizes: tuple[int, ...]
    strides: tuple[int, ...]
    bias: bool = False
    norm: Literal["group", "layer"] = "group"
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-5
    position_kernel_size: int = 128
    position_groups: int = 16
    sinusoids: SinusoidalPositions = SinusoidalPositions()
    augment: SpecAugmentConfig = SpecAugmentConfig()
    dropout_rate: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.channels) == len(self.kernel_sizes) == len(self.strides) > 0:
            raise ValueError(
                f"channels={self.channels}, kernel_sizes={self.kernel_sizes} and strides={self.strides} must have one "
                "number for each convolution"
            )
        check_rate("dropout_rate", self.dropout_rate)

    @property
    def convolutions(self) -> tuple[ConvolutionConfig, ...]:
        """Each convolution."""
        sizes = zip(self.channels, self.kernel_sizes, self.strides, strict=True)
        return tuple(
            ConvolutionConfig(num_outputs=outputs, kernel_size=kernel, stride=stride, bias=self.bias)
            for outputs, kernel, stride in sizes
        )

    def num_frames(self, num_samples: Any) -> Any:
        """Return the number of frames of waveforms, an int or an array; 0 or less where one is too short."""
        for convolution in self.convolutions:
            num_samples = convolution.num_steps(num_samples)
        return num_samples

    @property
    def min_samples(self) -> int:
        """Number of samples of a single frame, the fewest that there are."""
        num_samples = 1
        for convolution in reversed(self.convolutions):
            num_samples = (num_samples - 1) * convolution.stride + convolution.kernel_size
        return num_samples


class Frames(NamedTuple):
    """Inputs of an encoder, and 1 for each that is real."""

    vectors: Float[Array, "B M D"]
    segment_ids: Int[Array, "B M"] | None


class WaveformEncoder(nnx.Module):
    """Turns waveforms into frames.

    Args:
      config: Sizes.
      model_dim: Width of the frames.
      key: Random key of fresh weights.
    """

    def __init__(self, config: WaveformEncoderConfig, model_dim: int, *, key: Key[Array, ""]):
        keys = jax.random.split(key, len(config.channels) + 3)
        num_inputs = (1, *config.channels[:-1])
        self.convolutions = nnx.Dict(
            {
                str(layer): Convolution(convolution, num_inputs[layer], key=keys[layer])
                for layer, convolution in enumerate(config.convolutions)
            }
        )
        norms: dict[str, nnx.Module] = {}
        if config.norm == "group":
            norms["0"] = ChannelNorm(config.channels[0])
        else:
            norms |= {str(layer): LayerNormConfig().build(dim) for layer, dim in enumerate(config.channels)}
        self.norms = nnx.Dict(norms)
        width = config.channels[-1]
        self.norm = LayerNormConfig(epsilon=config.norm_epsilon).build(width)
        self.projection = Linear(
            width, model_dim, axes=("conv", "embed"), key=keys[-3], init=Normal(width**-0.5), bias=True
        )
        self.positions = WeightNormConvolution(
            ConvolutionConfig(
                num_outputs=model_dim,
                kernel_size=config.position_kernel_size,
                groups=config.position_groups,
                padding=config.position_kernel_size // 2,
                bias=True,
            ),
            model_dim,
            key=keys[-2],
        )
        self.hidden = (
            nnx.Param(jax.random.uniform(keys[-1], (model_dim,)), axes=("norm",))
            if config.augment.has_vector
            else None
        )
        self.config = config

    def __call__(
        self,
        waveforms: Float[Array, "B S"],
        num_samples: Int[Array, " B"] | None,
        *,
        dtype: jnp.dtype,
        dropout_key: Key[Array, ""] | None = None,
        is_hidden: Bool[Array, "B M"] | None = None,
    ) -> Frames:
        """Return the frames of waveforms.

        Args:
          waveforms: Samples, padded on the right.
          num_samples: Number of real samples of each row; ``None`` where all are.
          dtype: Type of activations.
          dropout_key: Key of dropout and of hidden spans; ``None`` for neither.
          is_hidden: True for frames to hide, in place of spans that are drawn.
        """
        activation = ACTIVATIONS[self.config.activation]
        x = waveforms.astype(dtype)[..., None]
        for layer in map(str, range(len(self.convolutions))):
            x = self.convolutions[layer](x)
            x = activation(self.norms[layer](x) if layer in self.norms else x)
        length = x.shape[1]
        lengths = jnp.full(len(x), length) if num_samples is None else self.config.num_frames(num_samples)
        x = dropout(self.projection(self.norm(x)), self.config.dropout_rate, fold(dropout_key, 0))
        if is_hidden is not None:
            assert self.hidden is not None, "checked before training"
            x = jnp.where(is_hidden[..., None], self.hidden[...].astype(x.dtype)[None, None], x)
        elif dropout_key is not None:
            hidden = None if self.hidden is None else self.hidden[...]
            x = hide_spans(x, hidden, lengths, self.config.augment, jax.random.fold_in(dropout_key, 1))
        x = x + activation(self.positions(x)[:, :length])  # an even kernel gives one more
        is_real = jnp.arange(length)[None] < lengths[:, None]
        padding = jnp.zeros(x.shape[:2], jnp.int32) if num_samples is None else 1 - is_real.astype(jnp.int32)
        x = x + sinusoids_of(padding, None, x.shape[-1], self.config.sinusoids).astype(dtype)
        return Frames(x, None if num_samples is None else is_real.astype(jnp.int32))
