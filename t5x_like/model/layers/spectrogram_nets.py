"""Nets around a decoder of spectrograms: its inputs are frames, its outputs are frames and stop flags.

Shen et al. 2018 (Tacotron 2, https://arxiv.org/abs/1712.05884), §2.2; Ao et al. 2022, §2.2.
Shape letters here: L steps of the decoder, T frames, E mel filters, U units, S numbers of a speaker's vector.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.convolution import Convolution, ConvolutionConfig, StatisticsNorm, within
from t5x_like.model.layers.dropout import check_rate, dropout, fold
from t5x_like.model.layers.linear import Linear, Normal
from t5x_like.model.layers.sinusoids import SinusoidalPositions, sinusoids

_POSITIONS = SinusoidalPositions(interleaved=True, scaled=True)
_SMALLEST_LENGTH = 1e-12  # of a speaker's vector, as torch.nn.functional.normalize has it


@config_class
class SpectrogramPrenetConfig:
    """Layers from frames to a decoder's inputs.

    Attributes:
      num_mel_bins: Mel filters of a frame.
      num_layers: Layers with dropout, at least one.
      units: Width of these layers.
      dropout_rate: Units are kept with this probability and multiplied by ``1 / (1 - dropout_rate)``, in training and
        in use, as in transformers. At 0.5 that is dropout. At 0 nothing is left of the frames.
      speaker_dim: Numbers of a speaker's vector.
    """

    num_mel_bins: int = 80
    num_layers: int = 2
    units: int = 256
    dropout_rate: float = 0.5
    speaker_dim: int = 512

    def __post_init__(self) -> None:
        for name in ("num_mel_bins", "num_layers", "units", "speaker_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")
        check_rate("dropout_rate", self.dropout_rate)


class SpectrogramPrenet(nnx.Module):
    """Turns frames into a decoder's inputs, with positions and the speaker's vector.

    Args:
      config: Sizes.
      model_dim: Width of the decoder.
      key: Random key of fresh weights.
    """

    def __init__(self, config: SpectrogramPrenetConfig, model_dim: int, *, key: Key[Array, ""]):
        keys = jax.random.split(key, config.num_layers + 2)

        def linear(num_inputs: int, num_outputs: int, key: Array) -> Linear:
            axes, init = ("embed_factor", "embed_factor"), Normal(0.02)
            return Linear(num_inputs, num_outputs, axes=axes, key=key, init=init, bias=True)

        widths = (config.num_mel_bins, *(config.units,) * config.num_layers)
        self.hidden = nnx.Dict(
            {
                str(layer): linear(widths[layer], config.units, keys[layer])
                for layer in range(config.num_layers)
            }
        )
        self.output = linear(config.units, model_dim, keys[-2])
        self.position_scale = nnx.Param(jnp.ones(()), axes=())
        self.speaker = linear(config.speaker_dim + model_dim, model_dim, keys[-1])
        self.config = config

    def __call__(
        self,
        frames: Float[Array, "B L E"],
        speakers: Float[Array, "B S"] | None,
        positions: Int[Array, "#B L"],
        *,
        dtype: jnp.dtype,
        key: Key[Array, ""],
    ) -> Float[Array, "B L D"]:
        """Return the decoder's inputs.

        Args:
          frames: Frames before those that the decoder predicts.
          speakers: Vectors of the rows' speakers, of any length; ``None`` leaves their layer out.
          positions: Positions of the frames.
          dtype: Type of activations.
          key: Random key of the units that are kept, the same in all rows.
        """
        x, rate = frames.astype(dtype), self.config.dropout_rate
        for index in range(len(self.hidden)):
            x = jax.nn.relu(self.hidden[str(index)](x))
            is_kept = jax.random.bernoulli(jax.random.fold_in(key, index), rate, (1, *x.shape[1:]))
            x = jnp.where(is_kept, x / jnp.asarray(1.0 - rate, dtype), jnp.zeros((), dtype))
        x = self.output(x)
        encoded = self.position_scale[...] * sinusoids(positions, x.shape[-1], _POSITIONS)
        x = x + encoded.astype(dtype)
        if speakers is None:
            return x
        length = jnp.sqrt(jnp.sum(speakers * speakers, axis=-1, keepdims=True))
        unit = (speakers / jnp.maximum(length, _SMALLEST_LENGTH)).astype(dtype)
        unit_BLS = jnp.broadcast_to(unit[:, None], (*x.shape[:2], unit.shape[-1]))
        return jax.nn.relu(self.speaker(jnp.concatenate([x, unit_BLS], axis=-1)))


@config_class
class SpectrogramPostnetConfig:
    """Frames from a decoder's outputs, and convolutions that refine them.

    Attributes:
      num_mel_bins: Mel filters of a frame.
      reduction_factor: Frames that each step of the decoder predicts.
      num_layers: Convolutions; their sum is added to the frames.
      units: Channels between convolutions.
      kernel_size: Frames that a convolution sees, an odd number.
      dropout_rate: Dropout after each convolution.
    """

    num_mel_bins: int = 80
    reduction_factor: int = 2
    num_layers: int = 5
    units: int = 256
    kernel_size: int = 5
    dropout_rate: float = 0.5

    def __post_init__(self) -> None:
        for name in ("num_mel_bins", "reduction_factor", "units"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")
        if self.kernel_size % 2 == 0:
            raise ValueError(f"kernel_size is {self.kernel_size}; rows keep their length with an odd one")
        check_rate("dropout_rate", self.dropout_rate)


class Spectrogram(NamedTuple):
    """Predicted frames, and scores of the end.

    Attributes:
      coarse: Frames before the convolutions.
      refined: Frames after them.
      stop_logits: Scores that a frame is the last one.
    """

    coarse: Float[Array, "B T E"]
    refined: Float[Array, "B T E"]
    stop_logits: Float[Array, "B T"]


class SpectrogramPostnet(nnx.Module):
    """Predicts frames and stop flags.

    Args:
      config: Sizes.
      model_dim: Width of the decoder.
      key: Random key of fresh weights.
    """

    def __init__(self, config: SpectrogramPostnetConfig, model_dim: int, *, key: Key[Array, ""]):
        keys = jax.random.split(key, config.num_layers + 2)

        def linear(num_outputs: int, key: Array) -> Linear:
            axes, init = ("embed", "embed_factor"), Normal(0.02)
            return Linear(model_dim, num_outputs, axes=axes, key=key, init=init, bias=True)

        self.frames = linear(config.num_mel_bins * config.reduction_factor, keys[-2])
        self.stop = linear(config.reduction_factor, keys[-1])
        bins, between = config.num_mel_bins, (config.units,) * max(config.num_layers - 1, 0)
        widths = (bins, *between, bins)
        self.convolutions = nnx.Dict(
            {
                str(layer): Convolution(
                    ConvolutionConfig(
                        num_outputs=widths[layer + 1],
                        kernel_size=config.kernel_size,
                        padding=(config.kernel_size - 1) // 2,
                    ),
                    widths[layer],
                    key=keys[layer],
                )
                for layer in range(config.num_layers)
            }
        )
        self.norms = nnx.Dict(
            {str(layer): StatisticsNorm(widths[layer + 1]) for layer in range(config.num_layers)}
        )
        self.config = config

    def __call__(self, x: Float[Array, "B L D"], *, dropout_key: Key[Array, ""] | None = None) -> Spectrogram:
        """Return frames and stop flags in float32, several for each step of the decoder.

        Args:
          x: Outputs of the decoder.
          dropout_key: ``None`` for no dropout.
        """
        coarse, stop_logits = self.predict(x)
        return Spectrogram(coarse, self.refine(coarse, dropout_key=dropout_key), stop_logits)

    def predict(self, x: Float[Array, "B L D"]) -> tuple[Float[Array, "B T E"], Float[Array, "B T"]]:
        """Return frames before the convolutions, and scores of the end."""
        wide = jnp.dtype(jnp.float32)
        frames = self.frames(x, output_dtype=wide).reshape(len(x), -1, self.config.num_mel_bins)
        return frames, self.stop(x, output_dtype=wide).reshape(len(x), -1)

    def refine(
        self,
        frames: Float[Array, "B T E"],
        real: Bool[Array, "B T"] | None = None,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B T E"]:
        """Return the frames plus what the convolutions add.

        Args:
          frames: Frames before the convolutions.
          real: True for frames that count; a row is computed as if it ended there. ``None`` for all.
          dropout_key: ``None`` for no dropout.
        """
        x, last = frames, len(self.convolutions) - 1
        for index in range(len(self.convolutions)):
            layer = str(index)
            x = self.norms[layer](self.convolutions[layer](within(x, real)))
            x = x if index == last else jnp.tanh(x)
            x = dropout(x, self.config.dropout_rate, fold(dropout_key, index))
        return within(frames + x, real)
