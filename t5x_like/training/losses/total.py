"""The loss that training minimizes: those of target tokens and of labels, each divided by its number."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.model.families.family import Measure, Predictions, unlabeled_tokens
from t5x_like.model.heads import DeferredLogits, UncomputedLogits
from t5x_like.model.multiple_choice import flatten_choices
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.training.losses.sequences import SEQUENCE_LOSSES, measure_sequences
from t5x_like.training.losses.tokens import (
    JointLogits,
    LossConfig,
    TokenMeasures,
    measure_targets,
    measure_tokens,
    replaced_token_logits,
    weigh_tokens,
)
from t5x_like.training.metrics import Totals, zero_totals

# Heads whose scores are logits over the classes of target tokens, for models without a language-model head.
TOKEN_LOSSES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "token_classification": lambda scores: scores,
    "replaced_tokens": replaced_token_logits,
}

# Heads that predict the same target tokens a second time, and whose loss is added (SpanBERT, Joshi et al. 2020, §3.3).
ADDED_TOKEN_LOSSES: tuple[str, ...] = ("span_boundary",)


class Normalizers(NamedTuple):
    """Numbers that losses are divided by: those of the whole batch, also when it is processed in microbatches."""

    weights: jax.Array  # divides the weighted sum over target tokens
    sequences: jax.Array  # sequences with a label
    tokens: jax.Array  # real tokens of the stream that targets belong to
    encoder_tokens: jax.Array  # real tokens of the encoder's stream
    unlabeled_tokens: jax.Array  # real tokens of rows without targets
    examples: jax.Array  # examples, of one row or of several answers
    first_tokens: jax.Array  # target tokens of each example's first row
    parts: int | jax.Array  # microbatches


def with_targets(batch: Batch, config: LossConfig) -> Batch:
    """Add target tokens to a batch in which only whole sequences have labels.

    They are the next tokens for an auxiliary language-model loss; without one they have weight 0.

    Args:
      batch: Batch of rows.
      config: Configuration of the loss.
    """
    if config.auxiliary_lm_weight is not None:
        return _with_next_tokens(batch)
    if batch.target_tokens is not None:
        return batch
    tokens = batch.encoder_input_tokens if batch.decoder_input_tokens is None else batch.decoder_input_tokens
    if tokens is None:  # speech to speech
        assert batch.declared is not None, "a batch has tokens, or streams of examples"
        tokens = jnp.zeros((len(next(iter(batch.declared.example.values()))), 1), jnp.int32)
    return batch._replace(
        target_tokens=jnp.zeros_like(tokens), loss_weights=jnp.zeros(tokens.shape, jnp.float32)
    )


def _with_next_tokens(batch: Batch) -> Batch:
    tokens, segment_ids = batch.encoder_input_tokens, batch.encoder_segment_ids
    segment_ids = jnp.ones_like(tokens) if segment_ids is None else segment_ids
    following = jnp.roll(segment_ids, -1, axis=-1).at[..., -1].set(0)
    return batch._replace(
        target_tokens=jnp.roll(tokens, -1, axis=-1),
        loss_weights=((following == segment_ids) & (following > 0)).astype(jnp.float32),
    )


def normalize(
    batch: Batch,
    config: LossConfig,
    label_loss: LabelLoss | None = None,
    *,
    num_parts: int | jax.Array = 1,
) -> tuple[jax.Array, Normalizers]:
    """Return the weight of each target, shaped as in the batch, and the numbers that ``total`` divides by.

    Args:
      batch: Batch with targets (``with_targets``).
      config: Options of the loss over target tokens.
      label_loss: Loss of the labels; ``None`` for a batch without labels.
      num_parts: Number of microbatches that the batch is cut into.
    """
    rows = flatten_choices(batch)
    weights, divisor = weigh_tokens(rows.target_tokens, rows.loss_weights, config, target_segment_ids(rows))
    num_labeled = (
        jnp.zeros(())
        if label_loss is None
        else jnp.sum(SEQUENCE_LOSSES[label_loss].labeled(batch)).astype(jnp.float32)
    )
    normalizers = Normalizers(
        weights=divisor,
        sequences=_at_least_one(num_labeled),
        tokens=_at_least_one(_real_targets(batch)),
        encoder_tokens=_at_least_one(_count_real(batch.encoder_input_tokens, batch.encoder_segment_ids)),
        unlabeled_tokens=_at_least_one(jnp.sum(unlabeled_tokens(batch), dtype=jnp.float32)),
        examples=_at_least_one(_count_examples(batch)),
        first_tokens=_at_least_one(jnp.sum(_first_rows(batch.loss_weights) > 0, dtype=jnp.float32)),
        parts=num_parts,
    )
    return weights.reshape(batch.loss_weights.shape), normalizers


def total(
    predictions: Predictions,
    batch: Batch,
    config: LossConfig,
    *,
    weights: jax.Array,
    normalizers: Normalizers,
    num_tasks: int,
    label_loss: LabelLoss | None = None,
    label_weight: float = 1.0,
) -> tuple[jax.Array, Totals]:
    """Return the loss of a batch, or of its part in a larger one, and the sums to log.

    Args:
      predictions: Predictions of the model for ``batch``.
      batch: Batch with targets (``with_targets``).
      config: Options of the loss over target tokens.
      weights: Weights of each target, from ``normalize``.
      normalizers: Normalizers of the whole batch, from ``normalize``.
      num_tasks: Number of tasks of the mixture, whose losses are logged apart.
      label_loss: Loss of the labels; ``None`` for a batch without labels.
      label_weight: Factor of the losses of target tokens and labels. It leaves those of routers, and ``extra_losses``.
    """
    losses, totals = _measure(predictions, flatten_choices(batch), config, num_tasks, label_loss)
    of_tokens = jnp.sum(losses * weights.reshape(losses.shape)) / normalizers.weights
    of_tokens = of_tokens * (config.auxiliary_lm_weight or 1.0)
    of_sequences = totals.sequence_loss / normalizers.sequences
    loss = label_weight * (of_tokens + of_sequences)
    return _with_others(loss, predictions, normalizers), totals


def own_total(
    predictions: Predictions, batch: Batch, *, normalizers: Normalizers, num_tasks: int
) -> tuple[jax.Array, Totals]:
    """Return the loss of a method that computes all of it, and the sums to log.

    Args:
      predictions: Predictions of the model, with the method's loss among ``extra_losses``.
      batch: Batch of rows.
      normalizers: Normalizers of the whole batch, from ``normalize``.
      num_tasks: Number of tasks of the mixture.
    """
    rows = flatten_choices(batch)
    totals = zero_totals(num_tasks)._replace(tokens=_real_tokens(rows), measures=_measures(predictions, rows))
    if predictions.routing is not None:
        totals = totals._replace(balance_loss=predictions.routing.loss)
    return _with_others(jnp.zeros(()), predictions, normalizers), totals


def _with_others(loss: jax.Array, predictions: Predictions, normalizers: Normalizers) -> jax.Array:
    """Add all losses that are not those of targets and labels."""
    if predictions.routing is not None:
        loss = loss + predictions.routing.loss / normalizers.parts
    for extra in (predictions.extra_losses or {}).values():
        divisor = extra.divisor
        if divisor is None:
            divisor = normalizers.unlabeled_tokens if extra.unlabeled else normalizers.tokens
        loss = loss + extra.weight * extra.total / divisor
    return loss


def measure(
    predictions: Predictions,
    batch: Batch,
    config: LossConfig,
    num_tasks: int,
    label_loss: LabelLoss | None = None,
) -> Totals:
    """Return the sums to log of a validation batch.

    Args:
      predictions: Predictions of the model.
      batch: Batch of rows.
      config: Configuration of the loss.
      num_tasks: Number of tasks in the mixture.
      label_loss: Loss of the labels; ``None`` for a batch without labels.
    """
    return _measure(predictions, flatten_choices(batch), config, num_tasks, label_loss)[1]


def _measure(
    predictions: Predictions,
    batch: Batch,
    config: LossConfig,
    num_tasks: int,
    label_loss: LabelLoss | None,
) -> tuple[jax.Array, Totals]:
    """Losses of all tokens, and the sums to log."""
    heads = predictions.heads or {}
    logits, measures = _token_logits(predictions, batch), _measures(predictions, batch)
    if isinstance(logits, JointLogits):
        segment_ids = target_segment_ids(batch)
        measured, own = logits.measure(batch.target_tokens, batch.loss_weights, segment_ids, config)
        measures |= own
    else:
        measured = _compared(logits, batch, config)
    losses, z_losses, is_correct = measured
    for name in ADDED_TOKEN_LOSSES:
        if name in heads:
            losses = losses + _compared(heads[name], batch, config).losses
    weights = batch.loss_weights
    cross_entropies = losses - z_losses
    tasks = jnp.zeros_like(batch.target_tokens) if batch.task_ids is None else batch.task_ids
    by_task = jax.nn.one_hot(tasks, num_tasks, dtype=jnp.float32) * weights[..., None]
    totals = zero_totals(num_tasks)._replace(
        loss=jnp.sum(losses * weights),
        cross_entropy=jnp.sum(cross_entropies * weights),
        z_loss=jnp.sum(z_losses * weights),
        correct=jnp.sum(is_correct * weights),
        target_tokens=jnp.sum(weights),
        tokens=_real_tokens(batch),
        task_loss=jnp.einsum("bl,blt->t", cross_entropies, by_task),
        task_tokens=jnp.sum(by_task, axis=(0, 1)),
        measures=measures,
    )
    of_sequences = measure_sequences(batch, heads, label_loss, config.ranking)
    if of_sequences is not None:
        totals = totals._replace(
            sequence_loss=jnp.sum(of_sequences.losses),
            sequence_correct=jnp.sum(of_sequences.correct),
            sequences=jnp.sum(of_sequences.labeled),
        )
    if predictions.routing is not None:
        totals = totals._replace(balance_loss=predictions.routing.loss)
    return losses, totals


def _compared(logits: jax.Array | UncomputedLogits, batch: Batch, config: LossConfig) -> TokenMeasures:
    """Compare logits with targets, which encoders have at few positions."""
    if isinstance(logits, DeferredLogits) and batch.decoder_input_tokens is None:
        return measure_targets(logits, batch.target_tokens, batch.loss_weights, config)
    return measure_tokens(logits, batch.target_tokens, config)


def _token_logits(predictions: Predictions, batch: Batch) -> jax.Array | UncomputedLogits:
    """Logits of the vocabulary, or of a head's classes; zeros where the model predicts no tokens."""
    if predictions.logits is not None:
        return predictions.logits
    for name, logits_of in TOKEN_LOSSES.items():
        if predictions.heads and name in predictions.heads:
            return logits_of(predictions.heads[name])
    return jnp.zeros((*batch.target_tokens.shape, 2))


def _measures(predictions: Predictions, batch: Batch) -> dict[str, Measure]:
    """Return the means of routers, the model's own measures, and the means of its extra losses."""
    losses = (predictions.extra_losses or {}).items()
    real = _real_targets(batch)
    routing = predictions.routing
    return {
        **({} if routing is None else {name: Measure(*pair) for name, pair in routing.measures.items()}),
        **(predictions.measures or {}),
        **{
            name: Measure(extra.total, real if extra.count is None else extra.count) for name, extra in losses
        },
    }


def target_segment_ids(batch: Batch) -> jax.Array | None:
    """Segment ids of the stream that targets belong to: the decoder's where there is one."""
    return batch.encoder_segment_ids if batch.decoder_input_tokens is None else batch.decoder_segment_ids


def _real_targets(batch: Batch) -> jax.Array:
    """Count the real tokens of the stream that targets belong to."""
    return _count_real(batch.target_tokens, target_segment_ids(batch))


def _count_examples(batch: Batch) -> jax.Array:
    """Count the examples with a real token; those that fill up a batch have none."""
    segment_ids = target_segment_ids(batch)
    if segment_ids is None:
        return jnp.float32(len(batch.target_tokens))
    is_example = jnp.any(segment_ids > 0, axis=tuple(range(1, segment_ids.ndim)))
    return jnp.sum(is_example, dtype=jnp.float32)


def _first_rows(stream: jax.Array) -> jax.Array:
    return stream[:, 0] if stream.ndim == 3 else stream


def _real_tokens(batch: Batch) -> jax.Array:
    encoder = _count_real(batch.encoder_input_tokens, batch.encoder_segment_ids)
    return encoder + _count_real(batch.decoder_input_tokens, batch.decoder_segment_ids)


def _count_real(tokens: jax.Array | None, segment_ids: jax.Array | None) -> jax.Array:
    """Count the tokens of a stream that are not padding; 0 without the stream."""
    count = (
        0 if tokens is None else jnp.size(tokens) if segment_ids is None else jnp.count_nonzero(segment_ids)
    )
    return jnp.asarray(count, jnp.float32)


def _at_least_one(count: jax.Array) -> jax.Array:
    return jnp.maximum(count, 1.0)
