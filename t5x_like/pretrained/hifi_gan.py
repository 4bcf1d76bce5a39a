"""HiFi-GAN: waveforms for log-mel spectrograms (Kong et al. 2020, §2.2), in transformers' files for SpeechT5.

https://arxiv.org/abs/2010.05646. Transposed convolutions lengthen the spectrogram; after each of them, sums of residual
blocks with several kernel sizes and dilations refine it.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from t5x_like.config_class import config_class
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.pretrained.hub import local_directory
from t5x_like.pretrained.safetensors_files import SafetensorsReader

_MODEL_TYPES = ("hifigan", "speecht5_hifigan")
_ENDS_KERNEL = 7  # of the first and the last convolution
_LAST_SLOPE = 0.01  # PyTorch's default, before the last convolution

Weights = dict[str, Any]


@config_class
class HifiGanConfig:
    """Sizes of a HiFi-GAN, by transformers' names. The defaults are those of SpeechT5's.

    Attributes:
      model_in_dim: Mel filters of a spectrogram.
      sampling_rate: Samples of a second.
      upsample_initial_channel: Channels before the first transposed convolution; each halves them.
      upsample_rates: Strides of the transposed convolutions.
      upsample_kernel_sizes: Their kernel sizes.
      resblock_kernel_sizes: Kernel sizes of the residual blocks after each of them.
      resblock_dilation_sizes: Dilations of each block's convolutions.
      leaky_relu_slope: Slope of negative numbers.
      normalize_before: Subtract a mean from spectrograms and divide by a scale, which are among the weights.
    """

    model_in_dim: int = 80
    sampling_rate: int = 16_000
    upsample_initial_channel: int = 512
    upsample_rates: tuple[int, ...] = (4, 4, 4, 4)
    upsample_kernel_sizes: tuple[int, ...] = (8, 8, 8, 8)
    resblock_kernel_sizes: tuple[int, ...] = (3, 7, 11)
    resblock_dilation_sizes: tuple[tuple[int, ...], ...] = ((1, 3, 5), (1, 3, 5), (1, 3, 5))
    leaky_relu_slope: float = 0.1
    normalize_before: bool = True

    def __post_init__(self) -> None:
        for first, second in (
            ("upsample_rates", "upsample_kernel_sizes"),
            ("resblock_kernel_sizes", "resblock_dilation_sizes"),
        ):
            if not getattr(self, first) or len(getattr(self, first)) != len(getattr(self, second)):
                raise ValueError(
                    f"{first} and {second} differ in length, or are empty; give one for each other"
                )
        if not all(size % 2 for size in self.resblock_kernel_sizes):
            raise ValueError(
                f"resblock_kernel_sizes is {self.resblock_kernel_sizes}; residual blocks need odd sizes"
            )

    @classmethod
    def from_hugging_face(cls, fields: dict[str, Any]) -> "HifiGanConfig":
        """Return the configuration in a ``config.json``.

        Raises:
          ValueError: It is of another model, or has a field that is not known.
        """
        if fields.get("model_type") not in _MODEL_TYPES:
            raise ValueError(
                f"config.json: model_type is {fields.get('model_type')!r}; a vocoder for SpeechT5 has "
                f"{' or '.join(map(repr, _MODEL_TYPES))}"
            )
        reader, default = ConfigFields(fields), cls()
        reader.ignore("initializer_range")
        values: dict[str, Any] = {}
        for name, value in vars(default).items():
            is_list = isinstance(value, tuple)
            read = reader.take(name, [*value] if is_list else value)
            values[name] = _as_tuple(read) if is_list else read
        reader.finish()
        return cls(**values)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the convolutions' kernels by their names in the files, as PyTorch has them."""
        width = self.upsample_initial_channel
        shapes = {"conv_pre": (width, self.model_in_dim, _ENDS_KERNEL)}
        for stage, size in enumerate(self.upsample_kernel_sizes):
            shapes[f"upsampler.{stage}"] = (width, width // 2, size)
            width //= 2
            for place, (kernel_size, dilations) in enumerate(self._blocks):
                block = f"resblocks.{stage * len(self._blocks) + place}"
                for layer in range(len(dilations)):
                    for convolutions in ("convs1", "convs2"):
                        shapes[f"{block}.{convolutions}.{layer}"] = (width, width, kernel_size)
        return {**shapes, "conv_post": (1, width, _ENDS_KERNEL)}

    def waveforms(self, weights: Weights, frames: Float[Array, "B T E"]) -> Float[Array, "B S"]:
        """Return waveforms for spectrograms.

        Args:
          weights: Kernels in JAX's order and biases by the names of ``shapes``, ``mean`` and ``scale``.
          frames: Spectrograms.
        """
        slope, blocks = self.leaky_relu_slope, self._blocks
        x = frames
        if self.normalize_before:
            x = (x - weights["mean"][None, None]) / weights["scale"][None, None]
        x = _convolve(x, weights["conv_pre"])
        for stage, (rate, size) in enumerate(
            zip(self.upsample_rates, self.upsample_kernel_sizes, strict=True)
        ):
            x = _lengthen(jax.nn.leaky_relu(x, slope), weights[f"upsampler.{stage}"], rate, size)
            total = jnp.zeros_like(x)
            for place, (_, dilations) in enumerate(blocks):
                name, y = f"resblocks.{stage * len(blocks) + place}", x
                for layer, dilation in enumerate(dilations):
                    first, second = (weights[f"{name}.{convs}.{layer}"] for convs in ("convs1", "convs2"))
                    inner = _convolve(jax.nn.leaky_relu(y, slope), first, dilation=dilation)
                    y = y + _convolve(jax.nn.leaky_relu(inner, slope), second)
                total = total + y
            x = total / len(blocks)
        return jnp.tanh(_convolve(jax.nn.leaky_relu(x, _LAST_SLOPE), weights["conv_post"]))[..., 0]

    @property
    def _blocks(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        return tuple(zip(self.resblock_kernel_sizes, self.resblock_dilation_sizes, strict=True))


class HifiGan:
    """A vocoder: a function from a spectrogram [T, E], or several [B, T, E], to a waveform [S], or [B, S].

    Args:
      config: Sizes.
      weights: Kernels, biases, ``mean`` and ``scale`` by the names of ``HifiGanConfig.shapes``.
    """

    def __init__(self, config: HifiGanConfig, weights: Weights):
        self.config, self.weights = config, weights
        self._compute: Callable[..., Array] = jax.jit(config.waveforms)

    @property
    def sampling_rate(self) -> int:
        """Samples of a second."""
        return self.config.sampling_rate

    def __call__(self, spectrogram: Any) -> np.ndarray:
        """Return float32 samples; a batch's padding is computed like all frames.

        Raises:
          ValueError: The spectrogram has another number of mel filters, or no frame.
        """
        frames = np.asarray(spectrogram, np.float32)
        bins = self.config.model_in_dim
        if frames.ndim not in (2, 3) or frames.shape[-1] != bins or not frames.size:
            raise ValueError(
                f"the spectrogram has shape {frames.shape}; this vocoder reads [frames, {bins}] or "
                f"[batch, frames, {bins}]"
            )
        rows = frames if frames.ndim == 3 else frames[None]
        waveforms = np.asarray(self._compute(self.weights, rows))
        return waveforms if frames.ndim == 3 else waveforms[0]


def read_hifi_gan(directory: PathLike) -> HifiGan:
    """Open a vocoder in the layout of transformers' ``SpeechT5HifiGan``, such as ``microsoft/speecht5_hifigan``.

    >>> vocoder = read_hifi_gan("path/to/speecht5_hifigan")
    >>> waveform = pretrained.generate_speech("Good morning.", vector, vocoder=vocoder)

    Args:
      directory: Folder with ``config.json`` and ``model.safetensors``, or a name on the Hugging Face Hub.

    Raises:
      ValueError: It holds another model, or weights are missing or have other shapes.
    """
    home = as_path(local_directory(directory))
    path = home / "config.json"
    if not path.exists():
        raise ValueError(f"{home} has no config.json; give the folder of a SpeechT5HifiGan")
    with refusing_damage(path):
        config = HifiGanConfig.from_hugging_face(read_json(path, dict))
    stored = SafetensorsReader(home)
    weights: Weights = {}
    for name, shape in config.shapes().items():
        is_transposed = name.startswith("upsampler")
        kernel = _kernel(stored, name, shape)
        # JAX's convolutions read [time, in, out]. A transposed one runs over the kernel backwards.
        kernel = kernel[:, :, ::-1].transpose(2, 0, 1) if is_transposed else kernel.transpose(2, 1, 0)
        bias = _read(stored, f"{name}.bias", (shape[1 if is_transposed else 0],))
        weights[name] = (jnp.asarray(kernel), jnp.asarray(bias))
    for name in ("mean", "scale") if config.normalize_before else ():
        weights[name] = jnp.asarray(_read(stored, name, (config.model_in_dim,)))
    return HifiGan(config, weights)


def _kernel(stored: SafetensorsReader, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return a kernel, multiplied out where the file has its length and direction apart."""
    apart = (
        (f"{name}.weight_g", f"{name}.weight_v"),
        (f"{name}.parametrizations.weight.original0", f"{name}.parametrizations.weight.original1"),
    )
    for length, direction in apart:
        if direction in stored.names():
            towards = _read(stored, direction, shape)
            norms = np.sqrt(np.sum(np.square(towards), axis=(1, 2), keepdims=True))
            return _read(stored, length, (shape[0], 1, 1)) * towards / norms
    return _read(stored, f"{name}.weight", shape)


def _read(stored: SafetensorsReader, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name not in stored.names():
        raise ValueError(f"the vocoder's files have no {name}; fetch them again, all of one revision")
    array = stored.read(name)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; by config.json it has {shape}")
    return array


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def _convolve(x: Array, weights: tuple[Array, Array], *, dilation: int = 1) -> Array:
    kernel, bias = weights
    padding = (len(kernel) - 1) * dilation // 2
    return _any_convolution(x, kernel, padding, dilation=dilation) + bias[None, None]


def _lengthen(x: Array, weights: tuple[Array, Array], rate: int, size: int) -> Array:
    """Convolve with zeros between the frames; ``(size - rate) // 2`` samples at each end are left out."""
    kernel, bias = weights
    return _any_convolution(x, kernel, size - 1 - (size - rate) // 2, rate=rate) + bias[None, None]


def _any_convolution(x: Array, kernel: Array, padding: int, *, rate: int = 1, dilation: int = 1) -> Array:
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        window_strides=(1,),
        padding=[(padding, padding)],
        lhs_dilation=(rate,),
        rhs_dilation=(dilation,),
        dimension_numbers=("NWC", "WIO", "NWC"),
        precision=jax.lax.Precision.HIGHEST,
    )
