"""Losses against a teacher's predictions: soft targets, and the cosine of hidden states.

Hinton et al. 2015, https://arxiv.org/abs/1503.02531; DistilBERT, Sanh et al. 2019, https://arxiv.org/abs/1910.01108.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.model.families.family import ExtraLoss, Predictions
from t5x_like.model.heads import whole_logits
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.training.losses.sequences import SEQUENCE_LOSSES, mask_padding
from t5x_like.training.losses.total import TOKEN_LOSSES, Normalizers, target_segment_ids

# Heads that have soft targets.
_COMPARED_HEADS = {*TOKEN_LOSSES, *(head for loss in SEQUENCE_LOSSES.values() for head in loss.heads)}
# A probability that float32 can't tell from 0 in a sum that is 1.
_ROUNDING = 1e-6
_HEAD = "heads/"


class TopLogits(NamedTuple):
    """The most likely tokens of a teacher.

    Attributes:
      ids: Token ids, int32 [..., K].
      log_probs: Logarithms of their probabilities at the temperature, float32 [..., K].
    """

    ids: jax.Array
    log_probs: jax.Array


def kept_outputs(
    predictions: Predictions, batch: Batch, *, temperature: float, num_logits: int, vocab_size: int
) -> dict[str, jax.Array]:
    """Return what a student needs of its teacher's predictions, by name, with few logits of each position.

    Args:
      predictions: Predictions of the teacher.
      batch: What it has read.
      temperature: Divides the logits.
      num_logits: Number of most likely tokens to keep.
      vocab_size: Number of the student's token ids; the teacher's distribution is over these alone.
    """
    logits = None if predictions.logits is None else whole_logits(predictions.logits)
    heads = predictions.heads or {}
    kept = {name: scores.astype(jnp.float32) for name, scores in heads.items() if name in _COMPARED_HEADS}
    if "multiple_choice" in kept:  # a row for each question, as in the batch
        kept["multiple_choice"] = kept["multiple_choice"].reshape(len(batch.sequence_labels), -1)
    outputs = {f"{_HEAD}{name}": scores for name, scores in kept.items()}
    if logits is None:
        return outputs
    log_probs = jax.nn.log_softmax(logits[..., :vocab_size].astype(jnp.float32) / temperature, axis=-1)
    values, ids = jax.lax.top_k(log_probs, min(num_logits, log_probs.shape[-1]))
    return outputs | TopLogits(ids, values)._asdict()


def predictions_of(outputs: Mapping[str, jax.Array]) -> Predictions:
    """Return the predictions of ``kept_outputs``, with ``TopLogits`` in place of logits."""
    heads = {name.removeprefix(_HEAD): each for name, each in outputs.items() if name.startswith(_HEAD)}
    top = {name: each for name, each in outputs.items() if not name.startswith(_HEAD)}
    return Predictions(logits=TopLogits(**top) if top else None, heads=heads)  # pyright: ignore[reportArgumentType]


def divergence(student: jax.Array, teacher: jax.Array, temperature: float) -> jax.Array:
    """Return KL(teacher || student) of softmax distributions times the squared temperature, float32 [...].

    Vocabularies may be padded to different sizes. Ids that only the student has get no probability from the teacher;
    ids that only the teacher has are left out of its distribution.

    Args:
      student: Logits [..., V].
      teacher: Logits [..., W].
      temperature: Divides both.
    """
    size = min(student.shape[-1], teacher.shape[-1])
    own, other = (logits.astype(jnp.float32) / temperature for logits in (student, teacher))
    own = jax.nn.log_softmax(own, axis=-1)[..., :size]
    other = jax.nn.log_softmax(other[..., :size], axis=-1)
    return jnp.sum(jnp.exp(other) * (other - own), axis=-1) * temperature**2


def top_divergence(student: jax.Array, teacher: TopLogits, temperature: float) -> jax.Array:
    """Return ``divergence`` where all tokens that ``teacher`` lacks count as one: a lower bound, float32 [...].

    Args:
      student: Logits [..., V].
      teacher: The most likely tokens, at the same temperature.
      temperature: Divides the student's logits.
    """
    own = jax.nn.log_softmax(student.astype(jnp.float32) / temperature, axis=-1)
    own = jnp.take_along_axis(own, teacher.ids, axis=-1)
    probs = jnp.exp(teacher.log_probs)
    known = jnp.sum(probs * (teacher.log_probs - own), axis=-1)
    teacher_rest, student_rest = (
        jnp.maximum(1.0 - jnp.sum(each, axis=-1), _ROUNDING) for each in (probs, jnp.exp(own))
    )
    others = jnp.where(
        teacher_rest > _ROUNDING, teacher_rest * (jnp.log(teacher_rest) - jnp.log(student_rest)), 0.0
    )
    return (known + others) * temperature**2


def binary_divergence(student: jax.Array, teacher: jax.Array, temperature: float) -> jax.Array:
    """Return the mean over classes of KL(teacher || student) of their sigmoids times the squared temperature, [...].

    Args:
      student: Logits [..., C].
      teacher: Logits [..., C].
      temperature: Divides both.
    """
    own, other = (logits.astype(jnp.float32) / temperature for logits in (student, teacher))
    probs = jax.nn.sigmoid(other)
    of_class = probs * (jax.nn.log_sigmoid(other) - jax.nn.log_sigmoid(own))
    of_rest = (1.0 - probs) * (jax.nn.log_sigmoid(-other) - jax.nn.log_sigmoid(-own))
    return jnp.mean(of_class + of_rest, axis=-1) * temperature**2


def _cosine_distance(student: jax.Array, teacher: jax.Array) -> jax.Array:
    """Return ``1 - cosine`` of vectors [..., D], float32 [...]."""
    own, other = student.astype(jnp.float32), teacher.astype(jnp.float32)
    product = jnp.sum(own * other, axis=-1)
    lengths = jnp.sum(own**2, axis=-1) * jnp.sum(other**2, axis=-1)
    return 1.0 - product * jax.lax.rsqrt(lengths + 1e-12)


def soft_token_loss(
    student: Predictions,
    teacher: Predictions,
    batch: Batch,
    *,
    temperature: float,
    weight: float,
    weights: jax.Array | None,
    normalizers: Normalizers,
) -> ExtraLoss | None:
    """Return the divergence of the head that learns from target tokens; ``None`` if a model lacks it.

    Args:
      student: Predictions for ``batch``.
      teacher: Predictions for the same batch.
      batch: A batch with a row for each choice.
      temperature: Divides the logits.
      weight: Weight of the loss.
      weights: Weights of targets, to compare these alone; ``None`` compares all real tokens.
      normalizers: Numbers to divide by, of the whole batch.
    """
    pair = _token_logits(student, teacher)
    if pair is None:
        return None
    own, taught = pair
    if isinstance(taught, TopLogits):
        losses = top_divergence(own, taught, temperature)
    else:
        losses = divergence(own, taught, temperature)
    if weights is None:
        total, count = _sum_over_real(losses, target_segment_ids(batch))
        return ExtraLoss(total, weight, count, normalizers.tokens)
    weights = weights.reshape(losses.shape)
    return ExtraLoss(jnp.sum(losses * weights), weight, jnp.sum(weights), normalizers.weights)


def _token_logits(student: Predictions, teacher: Predictions) -> tuple[jax.Array, jax.Array] | None:
    """Logits of the head that learns from target tokens, if both models have it."""
    if student.logits is not None:
        return (
            None if teacher.logits is None else (whole_logits(student.logits), whole_logits(teacher.logits))
        )
    own, taught = student.heads or {}, teacher.heads or {}
    for name, logits_of in TOKEN_LOSSES.items():
        if name in own and name in taught:
            return logits_of(own[name]), logits_of(taught[name])
    return None


def soft_sequence_loss(
    student: Predictions,
    teacher: Predictions,
    batch: Batch,
    label_loss: LabelLoss | None,
    *,
    temperature: float,
    weight: float,
    normalizers: Normalizers,
) -> ExtraLoss | None:
    """Return the divergence of the head that predicts the labels, over labeled rows; ``None`` if a model lacks it.

    Args:
      student: Predictions for ``batch``.
      teacher: Predictions for the same batch.
      batch: A batch with a row for each choice.
      label_loss: Loss of the labels; ``None`` for a batch without labels.
      temperature: Divides the scores.
      weight: Weight of the loss.
      normalizers: Numbers to divide by, of the whole batch.
    """
    own, taught = student.heads or {}, teacher.heads or {}
    loss = None if label_loss is None else SEQUENCE_LOSSES[label_loss]
    head = next((name for name in loss.heads if name in own and name in taught), None) if loss else None
    if label_loss is None or loss is None or head is None:
        return None
    labeled = loss.labeled(batch).astype(jnp.float32)
    losses = _sequence_losses(label_loss, own[head], taught[head], batch, temperature)
    return ExtraLoss(jnp.sum(losses * labeled), weight, jnp.sum(labeled), normalizers.sequences)


def _sequence_losses(
    label_loss: LabelLoss, student: jax.Array, teacher: jax.Array, batch: Batch, temperature: float
) -> jax.Array:
    """Compare both models' scores of a label; returns float32 [B]."""
    match label_loss:
        case "regression":  # scores [B, 1]
            return jnp.square(student.astype(jnp.float32) - teacher.astype(jnp.float32))[:, 0]
        case "multi_label":  # [B, C]
            return binary_divergence(student, teacher, temperature)
        case "multiple_choice":  # [B * C, 1], or [B, C]
            rows = len(batch.sequence_labels)
            return divergence(student.reshape(rows, -1), teacher.reshape(rows, -1), temperature)
        case "question_answering":  # [B, L, 2]: both ends, each among the row's real tokens
            own, taught = (jnp.swapaxes(mask_padding(scores, batch), 1, 2) for scores in (student, teacher))
            return jnp.mean(divergence(own, taught, temperature), axis=-1)
        case _:
            return divergence(student, teacher, temperature)


def hidden_state_loss(
    student: jax.Array | None,
    teacher: jax.Array | None,
    segment_ids: jax.Array | None,
    weight: float,
    divisor: jax.Array,
) -> ExtraLoss | None:
    """Return the cosine distance of outputs of the last layer over real tokens; ``None`` without outputs.

    Args:
      student: Outputs of the trained model [B, L, D].
      teacher: Outputs of the teacher [B, L, D].
      segment_ids: 0 for padding; None for rows without padding.
      weight: Weight of the loss.
      divisor: Number of real tokens of the whole batch.
    """
    if student is None or teacher is None:
        return None
    total, count = _sum_over_real(_cosine_distance(student, teacher), segment_ids)
    return ExtraLoss(total, weight, count, divisor)


def _sum_over_real(losses: jax.Array, segment_ids: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """Return the sum over real tokens, and their number."""
    real = jnp.ones(losses.shape, bool) if segment_ids is None else segment_ids > 0
    return jnp.sum(jnp.where(real, losses, 0.0)), jnp.sum(real, dtype=jnp.float32)
