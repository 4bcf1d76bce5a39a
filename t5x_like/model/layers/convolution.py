"""Convolutions over time, plain or with normalized weights, and the norms that go with them."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class

# Added to variances; the norms of PyTorch's convolutional nets have it, whatever a model's other norms have.
_EPSILON = 1e-5


@config_class
class ConvolutionConfig:
    """A convolution over time.

    Attributes:
      num_outputs: Channels of the output.
      kernel_size: Time steps that an output depends on.
      stride: Time steps from one output to the next.
      groups: Groups of channels, each of which reads its own inputs.
      padding: Zeros before and after the row.
      bias: Adds a bias.
    """

    num_outputs: int
    kernel_size: int
    stride: int = 1
    groups: int = 1
    padding: int = 0
    bias: bool = False

    def __post_init__(self) -> None:
        for name in ("num_outputs", "kernel_size", "stride", "groups"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")
        if self.num_outputs % self.groups:
            raise ValueError(
                f"num_outputs={self.num_outputs} channels don't divide among groups={self.groups}; give a multiple"
            )

    def num_steps(self, length: int | Int[Array, "..."]) -> int | Int[Array, "..."]:
        """Return the number of outputs for a row of some length; 0 or less where it is too short."""
        return (length + 2 * self.padding - self.kernel_size) // self.stride + 1


class Convolution(nnx.Module):
    """Convolves rows [B, L, C] with ``kernel`` [time, inputs of a group, outputs].

    Args:
      config: Sizes.
      num_inputs: Channels of the input.
      key: Random key of the fresh kernel, which is drawn as by He et al. (2015).
    """

    def __init__(self, config: ConvolutionConfig, num_inputs: int, *, key: Key[Array, ""]):
        if num_inputs % config.groups:
            raise ValueError(
                f"{num_inputs} channels don't divide among groups={config.groups}; give a multiple"
            )
        shape = (config.kernel_size, num_inputs // config.groups, config.num_outputs)
        stddev = (2.0 / (shape[0] * shape[1])) ** 0.5
        self.kernel = nnx.Param(stddev * jax.random.normal(key, shape), axes=("conv",) * 3)
        self.bias = nnx.Param(jnp.zeros((config.num_outputs,)), axes=("conv",)) if config.bias else None
        self.config = config

    def __call__(self, x: Float[Array, "B L C"]) -> Float[Array, "B M E"]:
        """Return the convolved rows, without padding beyond that of the configuration."""
        return convolve(x, self.kernel[...], None if self.bias is None else self.bias[...], self.config)


class WeightNormConvolution(nnx.Module):
    """A convolution whose kernel has a learned length at each time step (Salimans and Kingma 2016, §2.1).

    ``kernel[t] = length[t] * direction[t] / |direction[t]|``.

    Args:
      config: Sizes; it has a bias.
      num_inputs: Channels of the input.
      key: Random key of the fresh kernel.
    """

    def __init__(self, config: ConvolutionConfig, num_inputs: int, *, key: Key[Array, ""]):
        plain = Convolution(config, num_inputs, key=key)
        # Of wav2vec 2.0's positions: 2 / sqrt(time * channels) (Baevski et al. 2020, in fairseq's code).
        direction = plain.kernel[...] * (2.0 / config.groups) ** 0.5
        self.direction = nnx.Param(direction, axes=("conv",) * 3)
        self.length = nnx.Param(_lengths(direction), axes=("conv",))
        self.bias = plain.bias
        self.config = config

    def __call__(self, x: Float[Array, "B L C"]) -> Float[Array, "B M E"]:
        """Return the convolved rows."""
        direction = self.direction[...]
        kernel = direction * (self.length[...] / _lengths(direction))[:, None, None]
        return convolve(x, kernel, None if self.bias is None else self.bias[...], self.config)


def _lengths(direction: Float[Array, "T C E"]) -> Float[Array, " T"]:
    return jnp.sqrt(jnp.sum(direction * direction, axis=(1, 2)))


def convolve(
    x: Float[Array, "B L C"],
    kernel: Float[Array, "T I E"],
    bias: Float[Array, " E"] | None,
    config: ConvolutionConfig,
) -> Float[Array, "B M E"]:
    """Return a convolution in the type of the rows.

    Args:
      x: Rows.
      kernel: Kernel, one matrix for each time step.
      bias: Bias of the outputs; None for none.
      config: Stride, groups and padding.
    """
    y = jax.lax.conv_general_dilated(
        x,
        kernel.astype(x.dtype),
        window_strides=(config.stride,),
        padding=[(config.padding, config.padding)],
        dimension_numbers=("NWC", "WIO", "NWC"),
        feature_group_count=config.groups,
    )
    return y if bias is None else y + bias.astype(y.dtype)[None, None]


class ChannelNorm(nnx.Module):
    """Normalizes each channel over the time steps of its row, in float32 (Wu and He 2018, one channel in a group).

    Padding counts, as in wav2vec 2.0: a row depends on how far it is padded.

    Args:
      num_channels: Number of channels.
    """

    def __init__(self, num_channels: int):
        self.scale = nnx.Param(jnp.ones((num_channels,)), axes=("norm",))
        self.bias = nnx.Param(jnp.zeros((num_channels,)), axes=("norm",))

    def __call__(self, x: Float[Array, "B L C"]) -> Float[Array, "B L C"]:
        """Return rows whose channels have mean ``bias`` and deviation ``scale``."""
        wide = x.astype(jnp.float32)
        centered = wide - jnp.mean(wide, axis=1, keepdims=True)
        variance = jnp.mean(centered * centered, axis=1, keepdims=True)
        scale, bias = self.scale[...][None, None], self.bias[...][None, None]
        return (centered * jax.lax.rsqrt(variance + _EPSILON) * scale + bias).astype(x.dtype)


class StatisticsNorm(nnx.Module):
    """A batch norm by its recorded statistics (Ioffe and Szegedy 2015, algorithm 2), in training too.

    They are weights without a gradient: a step changes no statistics, so training and use compute the same.

    Args:
      num_channels: Number of channels.
    """

    def __init__(self, num_channels: int):
        self.scale = nnx.Param(jnp.ones((num_channels,)), axes=("norm",))
        self.bias = nnx.Param(jnp.zeros((num_channels,)), axes=("norm",))
        self.running_mean = nnx.Param(jnp.zeros((num_channels,)), axes=("norm",))
        self.running_variance = nnx.Param(jnp.ones((num_channels,)), axes=("norm",))

    def __call__(self, x: Float[Array, "B L C"]) -> Float[Array, "B L C"]:
        """Return rows normalized by the recorded means and variances."""
        mean, variance = (
            jax.lax.stop_gradient(each[...]) for each in (self.running_mean, self.running_variance)
        )
        factor = self.scale[...] * jax.lax.rsqrt(variance + _EPSILON)
        wide = (x.astype(jnp.float32) - mean[None, None]) * factor[None, None]
        return (wide + self.bias[...][None, None]).astype(x.dtype)


def within(x: Float[Array, "B L C"], real: Bool[Array, "B L"] | None) -> Float[Array, "B L C"]:
    """Return rows with zeros where they are not real, as a convolution pads a row that ends there.

    Args:
      x: Rows.
      real: True for real time steps; None for all.
    """
    return x if real is None else jnp.where(real[..., None], x, jnp.zeros((), x.dtype))
