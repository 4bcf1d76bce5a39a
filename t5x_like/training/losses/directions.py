"""The loss of a bidirectional language model: the mean over its directions (Peters et al. 2018, §3.1)."""

import jax
import jax.numpy as jnp

from t5x_like.model.families.family import DIRECTION_MEASURES, Measure
from t5x_like.training.losses.tokens import TokenMeasures


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
