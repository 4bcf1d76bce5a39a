"""Token losses: cross entropy, label smoothing and z-loss, weighed by ``loss_weights`` and normalised."""

import math
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from t5x_like.model.layers.attention import MASKED

Normalization = Literal["sum", "target_tokens", "all_tokens", "sequences"]


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """What is minimised.

    ``z_loss`` adds ``z_loss * log(Z)**2`` and keeps logits near zero (Raffel et al. 2020 train with 1e-4).
    ``label_smoothing`` spreads that much probability over the other words (Szegedy et al. 2016, §7); the
    entropy of the smoothed targets is taken off, so that a perfect prediction still costs 0.

    ``normalize_by`` divides the summed loss: by nothing (``"sum"``, what T5 pretrained with), by the number
    of target tokens, by all positions with padding, per sequence (each sequence's mean, then their mean: long
    targets don't outweigh short ones), or by a given number.
    """

    z_loss: float = 1e-4
    label_smoothing: float = 0.0
    normalize_by: Normalization | float = "target_tokens"

    def __post_init__(self) -> None:
        if self.z_loss < 0:
            raise ValueError(f"z_loss is {self.z_loss}; it weighs a penalty, give 0 or more")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing is {self.label_smoothing}; give a probability below 1")
        names = Normalization.__args__  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(self.normalize_by, str) and self.normalize_by not in names:
            raise ValueError(
                f"normalize_by is {self.normalize_by!r}; choose from {', '.join(names)} or give a number"
            )
        if not isinstance(self.normalize_by, str) and self.normalize_by <= 0:
            raise ValueError(f"normalize_by is {self.normalize_by}; give a positive number")


def token_losses(
    logits: jax.Array, target_tokens: jax.Array, config: LossConfig
) -> tuple[jax.Array, jax.Array]:
    """Loss (z-loss included) and z-loss of every position, float32 [...], from logits [..., V]."""
    logits = logits.astype(jnp.float32)
    on = 1.0 - config.label_smoothing
    # A vocabulary may be padded to a round size; no probability is spread over what is no word.
    is_word = logits > MASKED / 2
    off = config.label_smoothing / (is_word.sum(-1) - 1)
    largest = jax.lax.stop_gradient(logits.max(-1, keepdims=True))
    shifted = logits - largest
    log_sum = jnp.log(jnp.exp(shifted).sum(-1))
    # A comparison fuses into the sum and partitions over a sharded vocabulary, where a gather would not.
    is_target = (
        jax.lax.broadcasted_iota(target_tokens.dtype, logits.shape, logits.ndim - 1)
        == target_tokens[..., None]
    )
    loss = log_sum - jnp.where(is_target, shifted, 0.0).sum(-1) * (on - off)
    if config.label_smoothing:
        spread = off * jnp.where(is_word, shifted, 0.0).sum(-1)
        loss = loss - spread + on * math.log(on) + config.label_smoothing * jnp.log(off)
    z_loss = config.z_loss * (log_sum + largest.squeeze(-1)) ** 2
    return loss + z_loss, z_loss


def sequence_losses(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Cross entropy of each sequence's label, float32 [B], from scores of classes [B, C]; a label below 0 costs 0.

    Next sentence (Devlin et al. 2019), sentence order (Lan et al. 2020), or the classes of a task.
    """
    log_probs = jax.nn.log_softmax(scores.astype(jnp.float32), axis=-1)
    chosen = jnp.take_along_axis(log_probs, jnp.maximum(labels, 0)[:, None], axis=-1)[:, 0]
    return jnp.where(labels >= 0, -chosen, 0.0)


def weigh_tokens(
    target_tokens: jax.Array,
    loss_weights: jax.Array,
    config: LossConfig,
    segment_ids: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """The weight of every position and the number to divide their summed loss by.

    Shapes are [B, L]. Only ``"sequences"`` changes the weights; packed rows then need their ``segment_ids``.
    """
    if config.normalize_by == "sum":
        return loss_weights, jnp.float32(1.0)
    if config.normalize_by == "target_tokens":
        return loss_weights, _not_zero(loss_weights.sum())
    if config.normalize_by == "all_tokens":
        return loss_weights, jnp.float32(target_tokens.size)
    if config.normalize_by == "sequences":
        weights = loss_weights / _not_zero(_weight_of_own_sequence(loss_weights, segment_ids))
        return weights, _not_zero(weights.sum())
    return loss_weights, jnp.float32(config.normalize_by)


def _weight_of_own_sequence(loss_weights: jax.Array, segment_ids: jax.Array | None) -> jax.Array:
    if segment_ids is None:
        return jnp.broadcast_to(loss_weights.sum(-1, keepdims=True), loss_weights.shape)
    same_BLM = segment_ids[:, :, None] == segment_ids[:, None, :]
    return jnp.einsum("blm,bm->bl", same_BLM, loss_weights)


def _not_zero(total: jax.Array) -> jax.Array:
    """A batch, or sequence, without targets has loss 0, not 0/0."""
    return jnp.where(total == 0, 1.0, total)
