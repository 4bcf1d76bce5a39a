"""Losses against a teacher's predictions: soft targets, and the cosine of hidden states.

Hinton et al. 2015, https://arxiv.org/abs/1503.02531; DistilBERT, Sanh et al. 2019, https://arxiv.org/abs/1910.01108.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.family import ExtraLoss, Predictions
from t5x_like.model.multiple_choice import flatten_choices
from t5x_like.training.losses.sequences import mask_padding
from t5x_like.training.losses.total import SEQUENCE_LOSSES, TOKEN_LOSSES, Normalizers, target_segment_ids

# Names of the logged means.
MEASURES = ("soft_target_loss", "soft_sequence_loss", "encoder_cosine_loss", "decoder_cosine_loss")
# Heads that have soft targets.
_COMPARED_HEADS = {*TOKEN_LOSSES, *(loss.head or name for name, loss in SEQUENCE_LOSSES.items())}
# A probability that float32 can't tell from 0 in a sum that is 1.
_ROUNDING = 1e-6


@config_class
class Distillation:
    """A student learns to predict what its teacher predicts. The weights are those of DistilBERT's code.

    The loss is ``own_loss_weight`` times the loss without a teacher, plus ``soft_targets_weight`` times the divergence
    from the teacher's distributions, plus ``hidden_states_weight`` times the distance of hidden states.

    Attributes:
      teacher: A run, a Hugging Face directory, or any other checkpoint. It has no dropout.
      teacher_step: Step of a run; its newest if not given. A continued run keeps the step that it began with.
      temperature: Divides the logits of both before the softmax. The divergence is multiplied by its square, so that
        gradients keep their size (Hinton et al. 2015, §2.1). Numbers of a regression have no temperature.
      soft_targets_weight: Of the mean of KL(teacher || student), and for a regression of the squared difference. Each
        head counts with which the student learns from labels.
      hidden_states_weight: Of the mean of ``1 - cosine`` between both models' outputs of the last layer, over real
        tokens. An encoder-decoder has one such mean for each stack. The models need the same width.
      own_loss_weight: Of the loss from labels or target tokens.
      soft_target_tokens: Tokens of which a token head's distributions are compared: all ``"real"`` ones, as in
        DistilBERT's code, or only the ``"targets"`` of the own loss, with its weights.
      logits_dir: Directory of the teacher's predictions, one file for each step. Files that are there are read; others
        are computed and written. ``None`` computes all, and keeps none.
      num_logits: Most likely tokens of each position that ``logits_dir`` keeps. All others count as one further token,
        so the divergence is a lower bound, and exact with the whole vocabulary.
    """

    teacher: str
    teacher_step: int | None = None
    temperature: float = 2.0
    soft_targets_weight: float = 5.0
    hidden_states_weight: float = 1.0
    own_loss_weight: float = 2.0
    soft_target_tokens: Literal["real", "targets"] = "real"
    logits_dir: str | None = None
    num_logits: int = 64

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature is {self.temperature}; give a positive number, such as 2")
        names = ("soft_targets_weight", "hidden_states_weight", "own_loss_weight")
        for name in names:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or more")
        if not (self.soft_targets_weight or self.hidden_states_weight):
            raise ValueError(
                "soft_targets_weight and hidden_states_weight are both 0, so that nothing is learned from the teacher; "
                "give one of them a weight, or leave out distillation"
            )
        if self.num_logits < 1:
            raise ValueError(f"num_logits is {self.num_logits}; give at least 1")
        if self.logits_dir is not None and self.hidden_states_weight:
            raise ValueError(
                "logits_dir keeps no hidden states; set hidden_states_weight=0, or leave logits_dir out"
            )
        if self.logits_dir is None:
            refuse_unused(self, "num_logits", because="logits are not kept", advice="give logits_dir")
        if not self.soft_targets_weight:
            refuse_unused(self, "temperature", "soft_target_tokens", because="soft_targets_weight is 0")


class TopLogits(NamedTuple):
    """The most likely tokens of a teacher.

    Attributes:
      ids: Token ids, int32 [..., K].
      log_probs: Logarithms of their probabilities at the temperature, float32 [..., K].
    """

    ids: jax.Array
    log_probs: jax.Array


def top_logits(
    predictions: Predictions, batch: Batch, config: Distillation, *, vocab_size: int
) -> Predictions:
    """Return what ``with_teacher`` needs of a teacher's predictions, with ``TopLogits`` in place of logits.

    Args:
      predictions: Of the teacher.
      batch: What it has read.
      config: Temperature, and number of tokens to keep.
      vocab_size: Number of the student's token ids; the teacher's distribution is over these alone.
    """
    logits: Any = predictions.logits
    heads = predictions.heads or {}
    kept = {name: scores.astype(jnp.float32) for name, scores in heads.items() if name in _COMPARED_HEADS}
    if "multiple_choice" in kept:  # a row for each question, as in the batch
        kept["multiple_choice"] = kept["multiple_choice"].reshape(len(batch.sequence_labels), -1)
    if logits is None:
        return Predictions(heads=kept)
    log_probs = jax.nn.log_softmax(logits[..., :vocab_size].astype(jnp.float32) / config.temperature, axis=-1)
    values, ids = jax.lax.top_k(log_probs, min(config.num_logits, log_probs.shape[-1]))
    return Predictions(logits=TopLogits(ids, values), heads=kept)  # pyright: ignore[reportArgumentType]


def with_teacher(
    student: Predictions,
    teacher: Predictions,
    batch: Batch,
    config: Distillation,
    *,
    weights: jax.Array,
    normalizers: Normalizers,
) -> Predictions:
    """Add the losses against a teacher's predictions to those of the student.

    Args:
      student: Predictions for ``batch``.
      teacher: Predictions for the same batch; no gradient reaches them.
      batch: With targets, a whole one or a part.
      config: Weights of the losses, and temperature.
      weights: Of each target, from ``losses.normalize``.
      normalizers: Of the whole batch, from ``losses.normalize``.
    """
    teacher, batch = jax.lax.stop_gradient(teacher), flatten_choices(batch)
    found: dict[str, ExtraLoss | None] = dict.fromkeys(MEASURES)
    if config.soft_targets_weight:
        found["soft_target_loss"] = _of_tokens(student, teacher, batch, config, weights, normalizers)
        found["soft_sequence_loss"] = _of_sequences(student, teacher, batch, config, normalizers)
    if config.hidden_states_weight:
        weight = config.hidden_states_weight
        encoder = (student.encoder_output, teacher.encoder_output, batch.encoder_segment_ids)
        decoder = (student.decoder_output, teacher.decoder_output, batch.decoder_segment_ids)
        found["encoder_cosine_loss"] = _of_hidden_states(*encoder, weight, normalizers.encoder_tokens)
        found["decoder_cosine_loss"] = _of_hidden_states(*decoder, weight, normalizers.tokens)
    nothing = ExtraLoss(jnp.zeros(()), 0.0, jnp.zeros(()), jnp.ones(()))
    extra = {name: nothing if loss is None else loss for name, loss in found.items()}
    return student._replace(extra_losses={**(student.extra_losses or {}), **extra})


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
    theirs, ours = (jnp.maximum(1.0 - jnp.sum(each, axis=-1), _ROUNDING) for each in (probs, jnp.exp(own)))
    others = jnp.where(theirs > _ROUNDING, theirs * (jnp.log(theirs) - jnp.log(ours)), 0.0)
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


def cosine_distance(student: jax.Array, teacher: jax.Array) -> jax.Array:
    """Return ``1 - cosine`` of vectors [..., D], float32 [...]."""
    own, other = student.astype(jnp.float32), teacher.astype(jnp.float32)
    product = jnp.sum(own * other, axis=-1)
    lengths = jnp.sum(own**2, axis=-1) * jnp.sum(other**2, axis=-1)
    return 1.0 - product * jax.lax.rsqrt(lengths + 1e-12)


def _of_tokens(
    student: Predictions,
    teacher: Predictions,
    batch: Batch,
    config: Distillation,
    weights: jax.Array,
    normalizers: Normalizers,
) -> ExtraLoss | None:
    pair = _token_logits(student, teacher)
    if pair is None:
        return None
    own, taught = pair
    if isinstance(taught, TopLogits):
        losses = top_divergence(own, taught, config.temperature)
    else:
        losses = divergence(own, taught, config.temperature)
    if config.soft_target_tokens == "targets":
        weights = weights.reshape(losses.shape)
        total, count, divisor = jnp.sum(losses * weights), jnp.sum(weights), normalizers.weights
    else:
        total, count = _sum_over_real(losses, target_segment_ids(batch))
        divisor = normalizers.tokens
    return ExtraLoss(total, config.soft_targets_weight, count, divisor)


def _token_logits(student: Predictions, teacher: Predictions) -> tuple[Any, Any] | None:
    """Logits of the head that learns from target tokens, if both models have it."""
    if student.logits is not None:
        return None if teacher.logits is None else (student.logits, teacher.logits)
    ours, theirs = student.heads or {}, teacher.heads or {}
    for name, logits_of in TOKEN_LOSSES.items():
        if name in ours and name in theirs:
            return logits_of(ours[name]), logits_of(theirs[name])
    return None


def _of_sequences(
    student: Predictions, teacher: Predictions, batch: Batch, config: Distillation, normalizers: Normalizers
) -> ExtraLoss | None:
    """Compare the scores of the head that the batch has labels for, of labeled sequences."""
    ours, theirs = student.heads or {}, teacher.heads or {}
    for name, loss in SEQUENCE_LOSSES.items():
        head, labels = loss.head or name, getattr(batch, loss.labels)
        if labels is None or head not in ours or head not in theirs:
            continue
        labeled = loss.is_labeled(labels).astype(jnp.float32)
        losses = _sequence_losses(name, ours[head], theirs[head], batch, config.temperature)
        total = jnp.sum(losses * labeled)
        return ExtraLoss(total, config.soft_targets_weight, jnp.sum(labeled), normalizers.sequences)
    return None


def _sequence_losses(
    name: str, student: jax.Array, teacher: jax.Array, batch: Batch, temperature: float
) -> jax.Array:
    """Compare both models' scores for the loss of that name; returns float32 [B]."""
    match name:
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


def _of_hidden_states(
    student: jax.Array | None,
    teacher: jax.Array | None,
    segment_ids: jax.Array | None,
    weight: float,
    divisor: jax.Array,
) -> ExtraLoss | None:
    if student is None or teacher is None:
        return None
    total, count = _sum_over_real(cosine_distance(student, teacher), segment_ids)
    return ExtraLoss(total, weight, count, divisor)


def _sum_over_real(losses: jax.Array, segment_ids: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """Return the sum over real tokens, and their number."""
    real = jnp.ones(losses.shape, bool) if segment_ids is None else segment_ids > 0
    return jnp.sum(jnp.where(real, losses, 0.0)), jnp.sum(real, dtype=jnp.float32)
