"""Logits of a bidirectional language model, and their loss: the mean over directions (Peters et al. 2018, §3.1)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from t5x_like.model.families.family import Measure
from t5x_like.model.heads import UncomputedLogits, whole_logits
from t5x_like.training.losses.tokens import LossConfig, TokenMeasures, measure_tokens

DIRECTION_MEASURES = ("forward_cross_entropy", "backward_cross_entropy")


class BidirectionalLogits(NamedTuple):
    """Logits of two predictions of each token, whose loss is their mean.

    Attributes:
      forward: Scores from the tokens before each position.
      backward: Scores from the tokens after it.
    """

    forward: Float[Array, "B L V"] | UncomputedLogits
    backward: Float[Array, "B L V"] | UncomputedLogits

    def whole(self) -> Float[Array, "B L V"]:
        """Return the logits of the forward direction."""
        return whole_logits(self.forward)

    def measure(
        self,
        target_tokens: Int[Array, "B L"],
        loss_weights: Float[Array, "B L"],
        segment_ids: Int[Array, "B L"] | None,
        config: LossConfig,
    ) -> tuple[TokenMeasures, dict[str, Measure]]:
        """Return the mean of both directions at every position, and the cross entropy of each direction.

        Args:
          target_tokens: Ids to predict.
          loss_weights: Weights of positions; 0 for those without a target.
          segment_ids: Segment of each position; ``None`` for one segment in each row.
          config: Options of the loss.
        """
        forward, backward = (measure_tokens(logits, target_tokens, config) for logits in self)
        return join_directions(forward, backward, loss_weights, segment_ids)


def join_directions(
    forward: TokenMeasures,
    backward: TokenMeasures,
    loss_weights: jax.Array,
    segment_ids: jax.Array | None,
) -> tuple[TokenMeasures, dict[str, Measure]]:
    """Return the mean of both directions at every position, and the cross entropy of each direction.

    The first token of a segment is predicted backward only, the last one forward only. With half the weight of the
    others, as ``BidirectionalLM`` gives them, the loss is the mean of both directions' losses.

    Args:
      forward: Predictions from the tokens before each position.
      backward: Predictions from those after it.
      loss_weights: float32 [B, L]; 0 for positions without a target.
      segment_ids: int32 [B, L]; ``None`` for one segment in each row.
    """
    ids = jnp.ones(loss_weights.shape, jnp.int32) if segment_ids is None else segment_ids
    follows = (ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] > 0)
    has_before, has_after = jnp.pad(follows, ((0, 0), (1, 0))), jnp.pad(follows, ((0, 0), (0, 1)))
    num_directions = has_before.astype(jnp.float32) + has_after

    def mean(of_forward: jax.Array, of_backward: jax.Array) -> jax.Array:
        total = jnp.where(has_before, of_forward, 0.0) + jnp.where(has_after, of_backward, 0.0)
        return total / jnp.maximum(num_directions, 1.0)

    measures = {
        name: _cross_entropy(side, has_context & (loss_weights > 0))
        for name, side, has_context in zip(
            DIRECTION_MEASURES, (forward, backward), (has_before, has_after), strict=True
        )
    }
    return TokenMeasures(*(mean(*sides) for sides in zip(forward, backward, strict=True))), measures


def _cross_entropy(tokens: TokenMeasures, counted: jax.Array) -> Measure:
    total = jnp.sum(jnp.where(counted, tokens.losses - tokens.z_losses, 0.0))
    return Measure(total, jnp.sum(counted, dtype=jnp.float32))
