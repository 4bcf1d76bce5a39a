"""Losses of ranked answers: by how much a better answer is likelier than a worse one, under the model and a reference.

Each loss takes log-probabilities of the better and the worse answer of a pair, and returns one number for each pair.
"""

from collections.abc import Callable
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.model.families.family import Measure, Predictions
from t5x_like.model.heads import DeferredLogits
from t5x_like.model.multiple_choice import flatten_choices
from t5x_like.training.losses.tokens import LossConfig, measure_tokens

ScoresT = TypeVar("ScoresT")


class AnswerScores(NamedTuple):
    """Log-probabilities of answers, all of one shape.

    Attributes:
      logp: Sum over an answer's tokens under the trained model, float32.
      reference_logp: Sum under the reference, or 0 without one.
      num_tokens: Tokens of the answer; 0 for one that fills up an example.
    """

    logp: jax.Array
    reference_logp: jax.Array
    num_tokens: jax.Array

    @property
    def log_ratio(self) -> jax.Array:
        """Log-probability under the model less that under the reference."""
        return self.logp - self.reference_logp

    @property
    def mean_log_ratio(self) -> jax.Array:
        """``log_ratio`` for each token of an answer, on average."""
        return self.log_ratio / jnp.maximum(self.num_tokens, 1.0)

    @property
    def mean_logp(self) -> jax.Array:
        """Log-probability of each token of an answer, on average."""
        return self.logp / jnp.maximum(self.num_tokens, 1.0)


def token_logps(
    predictions: Predictions,
    batch: Batch,
    logits_chunk_length: int | None = None,
    *,
    positions: jax.Array | None = None,
) -> jax.Array:
    """Return the log-probability of the target at each position, float32 [B, L].

    Args:
      predictions: Predictions for all rows of the batch.
      batch: Batch of rows [B, L].
      logits_chunk_length: Positions whose logits are computed at once; None for all.
      positions: Positions whose deferred logits are computed, int32 [B, A]; others have 0. None for all.
    """
    assert predictions.logits is not None, "the model writes no tokens"
    plain = LossConfig(z_loss=0.0, logits_chunk_length=logits_chunk_length)
    logits, targets = predictions.logits, batch.target_tokens
    if positions is None or not isinstance(logits, DeferredLogits):
        return -measure_tokens(logits, targets, plain).losses
    rows = jnp.arange(len(targets))[:, None]
    logits = logits._replace(hidden=logits.hidden[rows, positions])
    chosen = logits.whole() if logits_chunk_length is None else logits
    losses = measure_tokens(chosen, targets[rows, positions], plain).losses
    return jnp.zeros(targets.shape, losses.dtype).at[rows, positions].set(-losses)


def answer_logps(predictions: Predictions, batch: Batch, logits_chunk_length: int | None = None) -> jax.Array:
    """Return the log-probabilities of answers, summed over their tokens, float32 [B, C].

    Args:
      predictions: Predictions for all rows of the batch.
      batch: Batch with C answers in each example, whose tokens have a loss weight.
      logits_chunk_length: Positions whose logits are computed at once; None for all.
    """
    rows = flatten_choices(batch)
    logps = token_logps(predictions, rows, logits_chunk_length)
    sums = jnp.sum(jnp.where(rows.loss_weights > 0, logps, 0.0), axis=-1)
    return sums.reshape(batch.loss_weights.shape[:2])


class Pairs(NamedTuple, Generic[ScoresT]):
    """All pairs of a better and a worse answer of each example, P of them.

    Attributes:
      better: Scores of the better answers, arrays [B, P].
      worse: Scores of the worse answers.
      weights: Weights of pairs, float32 [B, P]: those of an example sum to 1, and those without two real answers are 0.
    """

    better: ScoresT
    worse: ScoresT
    weights: jax.Array

    def total(self, values: jax.Array) -> jax.Array:
        """Return the sum over examples of the mean of their pairs' values [B, P]."""
        return jnp.sum(jnp.where(self.weights > 0, values * self.weights, 0.0))

    @property
    def num_examples(self) -> jax.Array:
        """Number of examples with a pair, float32 []."""
        return jnp.sum(jnp.any(self.weights > 0, axis=-1), dtype=jnp.float32)

    def measures(self, **values: jax.Array) -> dict[str, Measure]:
        """Return logged means over examples of values [B, P]; bool values become shares."""
        count = self.num_examples
        return {name: Measure(self.total(each.astype(jnp.float32)), count) for name, each in values.items()}


def pairs_of(scores: ScoresT, num_tokens: jax.Array) -> Pairs[ScoresT]:
    """Return all pairs of the answers of examples.

    Args:
      scores: Arrays [B, C] of answers from the best to the worst.
      num_tokens: Tokens of each answer [B, C]; 0 for those that fill up an example.
    """
    left, right = jnp.triu_indices(num_tokens.shape[1], k=1)
    is_pair = ((num_tokens[:, left] > 0) & (num_tokens[:, right] > 0)).astype(jnp.float32)
    weights = is_pair / jnp.maximum(jnp.sum(is_pair, axis=-1, keepdims=True), 1.0)

    def take(indices: jax.Array) -> ScoresT:
        return jax.tree.map(lambda array: array[:, indices], scores)

    return Pairs(take(left), take(right), weights)


def sigmoid_loss(margins: jax.Array, label_smoothing: float = 0.0) -> jax.Array:
    """Return ``-log sigmoid`` of margins; label smoothing takes that share of pairs for wrongly ordered.

    Args:
      margins: Margins of pairs, any shape.
      label_smoothing: Share of wrong labels (conservative DPO, Mitchell 2023).
    """
    return -(
        (1 - label_smoothing) * jax.nn.log_sigmoid(margins) + label_smoothing * jax.nn.log_sigmoid(-margins)
    )


def _robust(margins: jax.Array, label_smoothing: float) -> jax.Array:
    """Return the loss whose mean over wrong labels is that of right ones (Chowdhury et al. 2024, eq. 12)."""
    right, wrong = sigmoid_loss(margins), sigmoid_loss(-margins)
    return ((1 - label_smoothing) * right - label_smoothing * wrong) / (1 - 2 * label_smoothing)


def _of_log_ratios(
    loss: Callable[[jax.Array], jax.Array], better: AnswerScores, worse: AnswerScores, beta: float
) -> jax.Array:
    return loss(beta * (better.log_ratio - worse.log_ratio))


def _ipo(better: AnswerScores, worse: AnswerScores, beta: float) -> jax.Array:
    """Return the squared distance from the margin 1 / (2 beta), of log-ratios for each token."""
    return jnp.square(better.mean_log_ratio - worse.mean_log_ratio - 1 / (2 * beta))


def _apo_zero(better: AnswerScores, worse: AnswerScores, beta: float) -> jax.Array:
    return 1 - jax.nn.sigmoid(beta * better.log_ratio) + jax.nn.sigmoid(beta * worse.log_ratio)


def _orpo(better: AnswerScores, worse: AnswerScores, beta: float) -> jax.Array:
    """Return the loss of the ratio of odds, p / (1 - p), of mean probabilities."""

    def log_odds(scores: AnswerScores) -> jax.Array:
        # A probability of 1 has infinite odds.
        logp = jnp.minimum(scores.mean_logp, -1e-6)
        return logp - jnp.log(-jnp.expm1(logp))

    return beta * sigmoid_loss(log_odds(better) - log_odds(worse))


def _simpo(
    better: AnswerScores, worse: AnswerScores, beta: float, *, margin: float, label_smoothing: float
) -> jax.Array:
    return sigmoid_loss(beta * (better.mean_logp - worse.mean_logp) - margin, label_smoothing)


def pair_losses(
    loss_type: str,
    better: AnswerScores,
    worse: AnswerScores,
    *,
    beta: float,
    label_smoothing: float = 0.0,
    margin: float = 0.0,
) -> jax.Array:
    """Return the loss of each pair.

    Args:
      loss_type: "sigmoid" (Rafailov et al. 2023, eq. 7), "robust" (Chowdhury et al. 2024), "ipo" (Azar et al. 2023,
        eq. 17), "hinge" (Zhao et al. 2023), "apo_zero" (D'Oosterlinck et al. 2024), "orpo" (Hong et al. 2024, eq. 7) or
        "simpo" (Meng et al. 2024, eq. 6).
      better: Scores of the better answers.
      worse: Scores of the worse answers.
      beta: Strength of the reference, or the factor of a loss without one.
      label_smoothing: Share of pairs that are taken for wrongly ordered, of "sigmoid", "robust" and "simpo".
      margin: Margin of "simpo", its gamma.
    """
    if loss_type == "simpo":
        return _simpo(better, worse, beta, margin=margin, label_smoothing=label_smoothing)
    functions: dict[str, Callable[[AnswerScores, AnswerScores, float], jax.Array]] = {
        "sigmoid": partial(_of_log_ratios, partial(sigmoid_loss, label_smoothing=label_smoothing)),
        "robust": partial(_of_log_ratios, partial(_robust, label_smoothing=label_smoothing)),
        "hinge": partial(_of_log_ratios, lambda margins: jax.nn.relu(1 - margins)),
        "ipo": _ipo,
        "apo_zero": _apo_zero,
        "orpo": _orpo,
    }
    return functions[loss_type](better, worse, beta)
