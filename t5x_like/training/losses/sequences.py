"""Losses of whole sequences: a class, a number, the right choice, both ends of an answer.

Devlin et al. 2019, §4 and appendix A.5, https://arxiv.org/abs/1810.04805.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model.multiple_choice import scores_of_examples
from t5x_like.text.objectives.objective import LabelLoss

# A predicted number this near to its label counts as right; on STS-B's scale it is a tenth.
_CLOSE = 0.5


class SequenceMeasures(NamedTuple):
    """Loss and correctness of each sequence, float32 [B]; both are 0 where ``labeled`` is."""

    losses: jax.Array
    correct: jax.Array
    labeled: jax.Array


class SequenceLoss(NamedTuple):
    """Loss of one kind of sequence label.

    Attributes:
      labels: Field of ``Batch`` that holds the labels.
      heads: Heads whose scores are read; a model has one of them.
      is_labeled: Function from labels [B, ...] to the sequences that have one: bool [B].
      measure: Function from a head's scores and a batch to measures [B]. In the batch each choice is a row of its own.
    """

    labels: str
    heads: tuple[str, ...]
    is_labeled: Callable[[jax.Array], jax.Array]
    measure: Callable[[jax.Array, Batch], SequenceMeasures]

    def labeled(self, batch: Batch) -> jax.Array:
        """Return which sequences have a label, bool [B].

        Raises:
          ValueError: The batch has no such labels.
        """
        labels = getattr(batch, self.labels)
        if labels is None:
            raise ValueError(
                f"the loss reads {self.labels}, and the batch has none; give rows with such labels"
            )
        return self.is_labeled(labels)

    def scores(self, heads: Mapping[str, jax.Array]) -> jax.Array:
        """Return the scores of the head that predicts the labels.

        Raises:
          ValueError: The model has no such head.
        """
        for name in self.heads:
            if name in heads:
                return heads[name]
        raise ValueError(
            f"rows have labels, and the model has no head that predicts them, {' or '.join(map(repr, self.heads))}; it "
            f"has {', '.join(heads) or 'none'}. Give the model the task of its labels, such as 'pretraining' for pairs "
            "of sentences, or take an objective without labels"
        )


@config_class
class MarginRanking:
    """A loss of candidates for a blank: the right one is likely, and by a margin likelier than each other one.

    ``-log p(right) + weight * sum over others of max(0, log p(other) - log p(right) + margin)`` (Kocijan et al. 2019,
    section 3.1, https://arxiv.org/abs/1905.06290, whose examples have one other).

    Attributes:
      weight: Weight of the margin loss; the paper tried 5, 10 and 20.
      margin: Difference of log-likelihoods that costs nothing; the paper tried 0.1, 0.2 and 0.4.
    """

    weight: float = 5.0
    margin: float = 0.4

    def __post_init__(self) -> None:
        if self.weight < 0 or self.margin < 0:
            raise ValueError(f"weight is {self.weight} and margin {self.margin}; give 0 or more")

    def measure(self, scores: jax.Array, batch: Batch) -> SequenceMeasures:
        """Return the loss of each example.

        Args:
          scores: Log-likelihoods of candidates [B * C, 1].
          batch: Batch with the labels of its examples.
        """
        labels = batch.sequence_labels
        scores = scores_of_examples(scores, len(labels), are_choices=True).astype(jnp.float32)
        right = jnp.take_along_axis(scores, jnp.maximum(labels, 0)[:, None], axis=-1)
        others = 1.0 - jax.nn.one_hot(labels, scores.shape[-1])
        excess = jnp.sum(others * jax.nn.relu(scores - right + self.margin), axis=-1)
        measures = _of_classes(scores, batch)
        return measures._replace(losses=jnp.where(labels >= 0, self.weight * excess - right[:, 0], 0.0))


def _cross_entropy(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the cross entropy of each label, float32 [B], from scores of classes [B, C].

    A sequence whose label is below 0 has none, and costs 0.
    """
    log_probs = jax.nn.log_softmax(scores.astype(jnp.float32), axis=-1)
    chosen = jnp.take_along_axis(log_probs, jnp.maximum(labels, 0)[:, None], axis=-1)[:, 0]
    return jnp.where(labels >= 0, -chosen, 0.0)


def _classification(scores: jax.Array, batch: Batch) -> SequenceMeasures:
    if scores.shape[-1] == 1:
        raise ValueError(
            "labels are classes, and the head has one output, whose cross entropy is 0 whatever it predicts; give it "
            "an output for each class, or sequence_values as labels of a regression"
        )
    return _of_classes(scores_of_examples(scores, len(batch.sequence_labels), are_choices=False), batch)


def _of_classes(scores: jax.Array, batch: Batch) -> SequenceMeasures:
    labels = batch.sequence_labels
    correct = (jnp.argmax(scores, -1) == labels).astype(jnp.float32)
    return SequenceMeasures(_cross_entropy(scores, labels), correct, (labels >= 0).astype(jnp.float32))


def _multiple_choice(scores: jax.Array, batch: Batch) -> SequenceMeasures:
    """Read scores [B * C, 1], one for each row, as those of each question's choices [B, C]."""
    return _of_classes(scores_of_examples(scores, len(batch.sequence_labels), are_choices=True), batch)


def _regression(scores: jax.Array, batch: Batch) -> SequenceMeasures:
    """Squared errors, from scores [B, 1]."""
    values = batch.sequence_values
    scores = scores_of_examples(scores, len(values), are_choices=False)
    known = ~jnp.isnan(values)
    errors = jnp.where(known, scores[:, 0].astype(jnp.float32) - jnp.where(known, values, 0.0), 0.0)
    close = known & (jnp.abs(errors) <= _CLOSE)
    return SequenceMeasures(errors**2, close.astype(jnp.float32), known.astype(jnp.float32))


def _multi_label(scores: jax.Array, batch: Batch) -> SequenceMeasures:
    """Binary cross entropies, averaged over classes, from scores [B, C]; a row is right if all of its classes are."""
    labels = batch.sequence_classes
    scores = scores_of_examples(scores, len(labels), are_choices=False).astype(jnp.float32)
    labeled = is_labeled_set(labels)
    losses = jnp.mean(optax.sigmoid_binary_cross_entropy(scores, jnp.maximum(labels, 0)), axis=-1)
    right = labeled & jnp.all((scores > 0) == (labels > 0), axis=-1)
    return SequenceMeasures(
        jnp.where(labeled, losses, 0.0), right.astype(jnp.float32), labeled.astype(jnp.float32)
    )


def is_labeled_set(labels: jax.Array) -> jax.Array:
    """Return which rows of indicators [B, C] have a label, bool [B]; it may be that of no class."""
    return labels[:, 0] >= 0


def _question_answering(scores: jax.Array, batch: Batch) -> SequenceMeasures:
    """Return the mean cross entropy of both ends among the row's real tokens, from scores [B, L, 2]."""
    ends, spans = mask_padding(scores, batch), batch.sequence_spans
    first, last = (_cross_entropy(ends[..., side], spans[:, side]) for side in (0, 1))
    right = jnp.all(jnp.argmax(ends, axis=1) == spans, axis=-1)
    return SequenceMeasures(
        (first + last) / 2, right.astype(jnp.float32), (spans[:, 0] >= 0).astype(jnp.float32)
    )


def mask_padding(scores: jax.Array, batch: Batch) -> jax.Array:
    """Return scores of tokens [B, L, K] in float32, with scores at padding that are never chosen.

    Args:
      scores: Scores of tokens [B, L, K].
      batch: Batch of the rows.
    """
    real = jnp.ones(scores.shape[:2], bool)
    real = real if batch.encoder_segment_ids is None else batch.encoder_segment_ids > 0
    return jnp.where(real[..., None], scores.astype(jnp.float32), -1e9)


def _has_class(labels: jax.Array) -> jax.Array:
    return labels >= 0


SEQUENCE_LOSSES: dict[LabelLoss, SequenceLoss] = {
    "classification": SequenceLoss(
        "sequence_labels", ("sequence_classification",), _has_class, _classification
    ),
    "sentence_pairs": SequenceLoss(
        "sequence_labels", ("next_sentence", "sentence_order"), _has_class, _classification
    ),
    "multiple_choice": SequenceLoss(
        "sequence_labels", ("multiple_choice", "cloze"), _has_class, _multiple_choice
    ),
    "regression": SequenceLoss(
        "sequence_values", ("sequence_classification",), lambda values: ~jnp.isnan(values), _regression
    ),
    "multi_label": SequenceLoss(
        "sequence_classes", ("sequence_classification",), is_labeled_set, _multi_label
    ),
    "question_answering": SequenceLoss(
        "sequence_spans", ("question_answering",), lambda spans: spans[:, 0] >= 0, _question_answering
    ),
}


def measure_sequences(
    batch: Batch,
    heads: Mapping[str, jax.Array],
    label_loss: LabelLoss | None,
    ranking: MarginRanking | None = None,
) -> SequenceMeasures | None:
    """Compare a head's scores with the labels of whole sequences; ``None`` without labels.

    Args:
      batch: Rows.
      heads: Scores by head.
      label_loss: Loss of the labels, as the data's head format or objective names it; ``None`` for rows without labels.
      ranking: Another loss of candidates for a blank.

    Raises:
      ValueError: The model has no head for the labels, or the batch has labels without a loss.
    """
    if label_loss is not None:
        loss = SEQUENCE_LOSSES[label_loss]
        return (ranking or loss).measure(loss.scores(heads), batch)
    for name in dict.fromkeys(loss.labels for loss in SEQUENCE_LOSSES.values()):
        if getattr(batch, name) is not None:
            raise ValueError(
                f"the batch has {name} and no loss of labels; give the data's, Loader.label_loss"
            )
    return None
