"""What is learned of whole sequences: a class, a number, the right choice, both ends of an answer.

Devlin et al. 2019, §4 and appendix A.5, https://arxiv.org/abs/1810.04805. The classes of words are learned as targets
of tokens, which ``losses.token_losses`` weighs.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.model import multiple_choice
from t5x_like.training.losses import sequence_losses

_CLOSE = 0.5  # a number that is told as near as this counts as right; of STS-B's scale it is a tenth


class Measured(NamedTuple):
    """Of each sequence, float32 [B]."""

    losses: jax.Array  # 0 where unlabelled
    correct: jax.Array
    labelled: jax.Array


def measure_sequences(
    batch: Batch, heads: dict[str, jax.Array] | None, num_choices: int = 0
) -> Measured | None:
    """What a model's heads say of sequences beside their labels; ``None`` where there is nothing to compare.

    Args:
      batch: choices as rows of their own (``model.multiple_choice.as_rows``).
      heads: scores by name.
      num_choices: of each question, 0 where there are no choices.

    Raises:
      ValueError: the batch has labels that no head of the model speaks of.
    """
    heads = heads or {}
    if batch.sequence_spans is not None:
        return _measure_spans(_head(heads, "question_answering"), batch)
    if batch.sequence_values is not None:
        return _measure_values(_head(heads, "sequence_classification"), batch.sequence_values)
    of_sequences = [scores for scores in heads.values() if scores.ndim == 2]
    if batch.sequence_labels is None or not of_sequences:
        return None
    (scores,), labels = of_sequences, batch.sequence_labels
    if num_choices:
        scores = multiple_choice.side_by_side(scores, num_choices)
    correct = (jnp.argmax(scores, -1) == labels).astype(jnp.float32)
    return Measured(sequence_losses(scores, labels), correct, (labels >= 0).astype(jnp.float32))


def labelled(batch: Batch) -> jax.Array:
    """How many sequences have a label."""
    if batch.sequence_spans is not None:
        return jnp.sum(batch.sequence_spans[:, 0] >= 0).astype(jnp.float32)
    if batch.sequence_values is not None:
        return jnp.sum(~jnp.isnan(batch.sequence_values)).astype(jnp.float32)
    labels = batch.sequence_labels
    return jnp.zeros(()) if labels is None else jnp.sum(labels >= 0).astype(jnp.float32)


def _head(heads: dict[str, jax.Array], name: str) -> jax.Array:
    if name not in heads:
        raise ValueError(f"the model has no head {name!r}, only {', '.join(heads) or 'none'}")
    return heads[name]


def _measure_values(scores: jax.Array, values: jax.Array) -> Measured:
    """Squared errors of a regression, from scores [B, 1]."""
    known = ~jnp.isnan(values)
    errors = jnp.where(known, scores[:, 0].astype(jnp.float32) - jnp.where(known, values, 0.0), 0.0)
    close = known & (jnp.abs(errors) <= _CLOSE)
    return Measured(errors**2, close.astype(jnp.float32), known.astype(jnp.float32))


def _measure_spans(scores: jax.Array, batch: Batch) -> Measured:
    """The mean cross entropy of both ends among the row's real tokens, from scores [B, L, 2]."""
    real = jnp.ones(scores.shape[:2], bool)
    real = real if batch.encoder_segment_ids is None else batch.encoder_segment_ids > 0
    ends = jnp.where(real[..., None], scores.astype(jnp.float32), -1e9)
    spans = batch.sequence_spans
    first, last = (sequence_losses(ends[..., side], spans[:, side]) for side in (0, 1))
    right = jnp.all(jnp.argmax(ends, axis=1) == spans, axis=-1)
    return Measured((first + last) / 2, right.astype(jnp.float32), (spans[:, 0] >= 0).astype(jnp.float32))
