"""Losses of tokens: cross entropy with label smoothing and z-loss, weighted by ``loss_weights`` and normalized."""

import math
from functools import partial
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from t5x_like.config_class import changeable, config_class
from t5x_like.model.families.family import Measure
from t5x_like.model.heads import DeferredLogits, LMHead, UncomputedLogits, whole_logits
from t5x_like.model.layers.embedding import Embedding
from t5x_like.model.layers.masks import MASKED
from t5x_like.model.layers.position_chunks import map_position_chunks
from t5x_like.model.layers.top_k import argmax
from t5x_like.partitioning.activations import map_tokens, num_context_parts
from t5x_like.training.losses.sequences import MarginRanking

# Parts of a row whose logits a masked language model computes one after another, or leaves out.
_TARGET_CHUNKS = 8

Normalization = Literal["sum", "target_tokens", "all_tokens", "sequences"]


@config_class
class LossConfig:
    """Options of the loss over target tokens.

    ``z_loss`` adds ``z_loss * log(Z)**2`` and keeps logits near zero (Raffel et al. 2020 train with 1e-4).
    ``label_smoothing`` spreads that much probability over the other words (Szegedy et al. 2016, §7); the
    entropy of the smoothed targets is taken off, so that a perfect prediction still costs 0.

    ``normalize_by`` divides the summed loss: by nothing (``"sum"``, what T5 pretrained with), by the number
    of target tokens, by all positions with padding, per sequence (each sequence's mean, then their mean: long
    targets don't outweigh short ones), or by a given number.

    ``auxiliary_lm_weight`` adds that much of a language-model loss over the text that a decoder's head reads:
    ``head loss + weight * LM loss`` (Radford et al. 2018, §3.2, eq. 5; they take 0.5, and ``normalize_by="sequences"``
    in their code). The other options apply to it. ``None`` leaves it out.

    ``logits_chunk_length`` computes the logits of that many positions of each row at a time, and once more in the
    backward pass, so that memory for them doesn't grow with the length. ``None`` computes all at once.

    ``ranking`` is the loss of candidates for a blank (``MaskedClozeClassification``, ``ReferentRanking``); ``None`` is
    the cross entropy of the right one.
    """

    z_loss: float = 1e-4
    label_smoothing: float = 0.0
    normalize_by: Normalization | float = "target_tokens"
    auxiliary_lm_weight: float | None = None
    logits_chunk_length: int | None = changeable(default=None)
    ranking: MarginRanking | None = None

    def __post_init__(self) -> None:
        if self.z_loss < 0:
            raise ValueError(f"z_loss is {self.z_loss}; it weighs a penalty, give 0 or more")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing is {self.label_smoothing}; give a probability below 1")
        if not isinstance(self.normalize_by, str) and self.normalize_by <= 0:
            raise ValueError(f"normalize_by is {self.normalize_by}; give a positive number")
        if self.auxiliary_lm_weight is not None and self.auxiliary_lm_weight <= 0:
            raise ValueError(
                f"auxiliary_lm_weight is {self.auxiliary_lm_weight}; give a positive number, or None for no such loss"
            )
        if self.logits_chunk_length is not None and self.logits_chunk_length < 1:
            raise ValueError(
                f"logits_chunk_length is {self.logits_chunk_length}; give a number of positions, or None"
            )


def token_losses(
    logits: jax.Array, target_tokens: jax.Array, config: LossConfig
) -> tuple[jax.Array, jax.Array]:
    """Return the loss (z-loss included) and the z-loss of every position, float32 [...].

    Args:
      logits: [..., V].
      target_tokens: int32 [...].
      config: Label smoothing and z-loss.
    """
    logits = logits.astype(jnp.float32)
    on = 1.0 - config.label_smoothing
    # A vocabulary may be padded to a round size; no probability is spread over the padding.
    is_word = logits > MASKED / 2
    off = config.label_smoothing / (is_word.sum(-1) - 1) if config.label_smoothing else 0.0
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


class TokenMeasures(NamedTuple):
    """Loss (z-loss included), z-loss, and whether the target has the highest score, of every position [B, L]."""

    losses: jax.Array
    z_losses: jax.Array
    is_correct: jax.Array


@runtime_checkable
class CandidateLogits(UncomputedLogits, Protocol):
    """Logits of which a loss computes those of each target and of a few other words."""

    def of_candidates(self, targets: jax.Array) -> jax.Array:
        """Return logits [B, L, C] of each position's target, then of the other words."""
        ...


@runtime_checkable
class JointLogits(UncomputedLogits, Protocol):
    """Logits of several predictions of each target, which have one loss together."""

    def measure(
        self,
        target_tokens: jax.Array,
        loss_weights: jax.Array,
        segment_ids: jax.Array | None,
        config: LossConfig,
    ) -> tuple[TokenMeasures, dict[str, Measure]]:
        """Return the loss at every position, and logged means of the single predictions.

        Args:
          target_tokens: Ids to predict, int32 [B, L].
          loss_weights: Weights of positions, float32 [B, L].
          segment_ids: Segments of positions, int32 [B, L]; ``None`` for one segment in each row.
          config: Options of the loss.
        """
        ...


def measure_tokens(
    logits: jax.Array | UncomputedLogits, target_tokens: jax.Array, config: LossConfig
) -> TokenMeasures:
    """Compare logits with targets; deferred logits are computed in chunks, those of candidates for these alone.

    Args:
      logits: [B, L, V].
      target_tokens: int32 [B, L].
      config: Label smoothing, z-loss and the length of chunks.
    """
    if isinstance(logits, CandidateLogits):
        candidates = logits.of_candidates(target_tokens)
        return measure_tokens(candidates, jnp.zeros_like(target_tokens), config)
    if not isinstance(logits, DeferredLogits):
        logits = whole_logits(logits)
        losses, z_losses = token_losses(logits, target_tokens, config)
        return TokenMeasures(losses, z_losses, argmax(logits) == target_tokens)

    def measure(
        layer: tuple[LMHead, Embedding | None], hidden: jax.Array, targets: jax.Array
    ) -> TokenMeasures:
        @partial(jax.checkpoint, prevent_cse=False)
        def measure_chunk(hidden: jax.Array, targets: jax.Array) -> TokenMeasures:
            lm_head, table = layer
            return measure_tokens(lm_head.logits(hidden, table), targets, config)

        length = config.logits_chunk_length or targets.shape[1]
        return map_position_chunks(measure_chunk, (hidden, targets), length)

    return map_tokens(measure, (logits.lm_head, logits.table), logits.hidden, target_tokens)


def measure_targets(
    logits: DeferredLogits, target_tokens: jax.Array, loss_weights: jax.Array, config: LossConfig
) -> TokenMeasures:
    """Compare logits with targets at the positions that have a weight; measures of the others may be 0.

    Positions with a weight are put first in each row. Chunks in which no row has one are left out, so that a masked
    language model computes little more than the logits of masked tokens.

    Args:
      logits: Inputs of the output layer, [B, L, D].
      target_tokens: int32 [B, L].
      loss_weights: float32 [B, L].
      config: Label smoothing, z-loss and the length of chunks.
    """
    if num_context_parts(*target_tokens.shape) > 1:  # each device would have another number of targets
        whole = logits if config.logits_chunk_length else logits.whole()
        return measure_tokens(whole, target_tokens, config)
    length = config.logits_chunk_length or math.ceil(target_tokens.shape[1] / _TARGET_CHUNKS)
    is_target = loss_weights != 0
    # Of all rows, so that all devices leave out the same chunks.
    most = jnp.max(jnp.sum(is_target, axis=1))
    is_used = jnp.broadcast_to(jnp.arange(is_target.shape[1]) < most, is_target.shape)

    def measure(
        layer: tuple[LMHead, Embedding | None],
        hidden: jax.Array,
        targets: jax.Array,
        is_target: jax.Array,
        is_used: jax.Array,
    ) -> TokenMeasures:
        def measure_used(hidden: jax.Array, targets: jax.Array) -> TokenMeasures:
            lm_head, table = layer
            return measure_tokens(lm_head.logits(hidden, table), targets, config)

        def leave_out(hidden: jax.Array, targets: jax.Array) -> TokenMeasures:
            del hidden
            zeros = (targets * 0).astype(jnp.float32)  # on the devices of the targets
            return TokenMeasures(zeros, zeros, zeros > 0)

        @partial(jax.checkpoint, prevent_cse=False)
        def measure_chunk(hidden: jax.Array, targets: jax.Array, is_used: jax.Array) -> TokenMeasures:
            return jax.lax.cond(is_used[0, 0], measure_used, leave_out, hidden, targets)

        order = jnp.argsort(~is_target, axis=1, stable=True)
        back = jnp.argsort(order, axis=1)
        arranged = (_arranged(hidden, order, back), jnp.take_along_axis(targets, order, axis=1), is_used)
        measured = map_position_chunks(measure_chunk, arranged, length)
        return jax.tree.map(lambda each: jnp.take_along_axis(each, back, axis=1), measured)

    layer = logits.lm_head, logits.table
    return map_tokens(measure, layer, logits.hidden, target_tokens, is_target, is_used)


@jax.custom_vjp
def _arranged(rows: jax.Array, order: jax.Array, back: jax.Array) -> jax.Array:
    """Return rows [B, L, D] with their positions in another order [B, L]; ``back`` is the inverse order."""
    del back  # of gradients
    return jnp.take_along_axis(rows, order[..., None], axis=1)


def _arrange(
    rows: jax.Array, order: jax.Array, back: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _arranged(rows, order, back), (order, back)


def _arrange_back(orders: tuple[jax.Array, jax.Array], gradient: jax.Array) -> tuple[jax.Array, None, None]:
    order, back = orders
    return _arranged(gradient, back, order), None, None


# JAX would add gradients up at each position; there is one for each.
_arranged.defvjp(_arrange, _arrange_back)


def weigh_tokens(
    target_tokens: jax.Array,
    loss_weights: jax.Array,
    config: LossConfig,
    segment_ids: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Return the weight of every position, and the number to divide their summed loss by.

    Args:
      target_tokens: int32 [B, L].
      loss_weights: float32 [B, L].
      config: ``normalize_by`` decides; only ``"sequences"`` changes the weights.
      segment_ids: int32 [B, L], which packed rows need for ``"sequences"``.
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
    """Give a batch or sequence without targets loss 0 instead of 0/0."""
    return jnp.where(total == 0, 1.0, total)


def replaced_token_logits(scores: jax.Array) -> jax.Array:
    """Turn scores [..., 1] for "yes" into logits [..., 2]; "no" has score 0 (ELECTRA, Clark et al. 2020, §2)."""
    return jnp.pad(scores, ((0, 0), (0, 0), (1, 0)))
