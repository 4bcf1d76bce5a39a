"""Losses of predicted spectrograms (Shen et al. 2018, §2.2; Tachibana et al. 2018, §4.1): pure functions of arrays.

Shape letters here: T frames, L steps of the decoder, M tokens of the encoder, E mel filters, N layers.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from t5x_like.config_class import config_class

STOP_WEIGHT = 5.0  # of last frames, of which a row has one (transformers' SpeechT5SpectrogramLoss)


@config_class
class GuidedAttention:
    """Loss of attention far from the diagonal (Tachibana et al. 2018, https://arxiv.org/abs/1710.08969, §4.1).

    Attributes:
      sigma: Width of the diagonal, as a share of both lengths.
      scale: Factor of the loss.
      num_heads: Heads of each layer that the loss acts on, from the first. As in transformers, -1 is all but the last.
    """

    sigma: float = 0.4
    scale: float = 10.0
    num_heads: int = 2

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise ValueError(f"sigma is {self.sigma}; give a positive number, such as 0.4")


class PartialMean(NamedTuple):
    """A mean as the sum of its numbers and their count."""

    total: Float[Array, ""]
    count: Float[Array, ""]

    @property
    def mean(self) -> Float[Array, ""]:
        """The mean; not-a-number where nothing is counted."""
        return self.total / self.count


def l1_loss(
    predicted: Float[Array, "B T E"], targets: Float[Array, "B T E"], real: Bool[Array, "B T"]
) -> PartialMean:
    """Return the mean distance of predicted frames from the targets.

    Args:
      predicted: Predicted frames.
      targets: Right ones.
      real: True for frames that count.
    """
    distances = jnp.where(real[..., None], jnp.abs(predicted - targets), 0.0)
    return PartialMean(jnp.sum(distances), jnp.sum(real, dtype=jnp.float32) * targets.shape[-1])


def stop_loss(
    logits: Float[Array, "B T"], real: Bool[Array, "B T"], *, last_weight: float = STOP_WEIGHT
) -> PartialMean:
    """Return the binary cross entropy of the flags that a frame is its row's last.

    Args:
      logits: Scores that a frame is the last.
      real: True for frames that count.
      last_weight: Weight of last frames.
    """
    following = jnp.pad(real[:, 1:], ((0, 0), (0, 1)))
    losses = jnp.where(following, jax.nn.softplus(logits), last_weight * jax.nn.softplus(-logits))
    return PartialMean(jnp.sum(jnp.where(real, losses, 0.0)), jnp.sum(real, dtype=jnp.float32))


def guided_attention_loss(
    attention: Float[Array, "N B H L M"],
    of_inputs: Bool[Array, "B M"],
    of_outputs: Bool[Array, "B L"],
    config: GuidedAttention,
) -> PartialMean:
    """Return the mean weight of cross-attention far from the diagonal, times ``config.scale``.

    Args:
      attention: Weights of cross-attention in all layers.
      of_inputs: True for the encoder's tokens that are real.
      of_outputs: True for the decoder's steps that are real.
      config: Width of the diagonal, and heads.
    """
    guided_NBHLM = attention[:, :, : config.num_heads]
    inputs, outputs = _shares(of_inputs), _shares(of_outputs)
    far_BLM = 1.0 - jnp.exp(-((inputs[:, None] - outputs[:, :, None]) ** 2) / (2.0 * config.sigma**2))
    is_inside = (inputs < 1.0)[:, None] & (outputs < 1.0)[:, :, None]
    is_real = of_inputs[:, None] & of_outputs[:, :, None]
    weights_BLM = jnp.where(is_inside & is_real, far_BLM, 0.0)
    total = jnp.sum(guided_NBHLM * weights_BLM[None, :, None])
    num_maps = guided_NBHLM.shape[0] * guided_NBHLM.shape[2]
    return PartialMean(config.scale * total, num_maps * jnp.sum(is_real, dtype=jnp.float32))


def _shares(real: Bool[Array, "B L"]) -> Float[Array, "B L"]:
    """Return the place of each token as a share of its row's real length."""
    lengths = jnp.maximum(jnp.sum(real, axis=1, keepdims=True), 1)
    return jnp.arange(real.shape[1])[None] / lengths


def spectrogram_losses(
    coarse: Float[Array, "B T E"],
    refined: Float[Array, "B T E"],
    stop_logits: Float[Array, "B T"],
    targets: Float[Array, "B T E"],
    real: Bool[Array, "B T"],
    *,
    last_weight: float = STOP_WEIGHT,
) -> dict[str, PartialMean]:
    """Return the losses of frames before and after the convolutions, and that of stop flags, by name.

    Args:
      coarse: Frames before the convolutions.
      refined: Frames after them.
      stop_logits: Scores that a frame is the last.
      targets: Right frames.
      real: True for frames that count.
      last_weight: Weight of last frames in the loss of stop flags.
    """
    return {
        "coarse_l1": l1_loss(coarse, targets, real),
        "refined_l1": l1_loss(refined, targets, real),
        "stop": stop_loss(stop_logits, real, last_weight=last_weight),
    }


def steps_of(frames: Shaped[Array, "B T ..."], reduction_factor: int) -> Shaped[Array, "B L ..."]:
    """Return the last of every ``reduction_factor`` frames.

    Args:
      frames: Frames, or one value for each.
      reduction_factor: Frames of a step of the decoder.
    """
    return frames[:, reduction_factor - 1 :: reduction_factor]


def shift_frames(frames: Float[Array, "B T E"], reduction_factor: int) -> Float[Array, "B L E"]:
    """Return what a decoder reads to predict frames: zeros, then the last frame of each step but the last step.

    Args:
      frames: Frames to predict.
      reduction_factor: Frames of a step.
    """
    return jnp.pad(steps_of(frames, reduction_factor)[:, :-1], ((0, 0), (1, 0), (0, 0)))
