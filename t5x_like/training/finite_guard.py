"""A step whose loss, gradients or update are not finite changes no weight and no optimizer state."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from t5x_like.training.metrics import Totals, add
from t5x_like.training.state import State


def keep_if_finite(
    before: State, after: State, totals: Totals, *, gradients: PyTree, updates: PyTree
) -> State:
    """Return the state after a step, or the one before it with the step counted as skipped.

    Args:
      before: State before the step.
      after: State after the step, except for its totals.
      totals: Sums of this step, without its number and the norm of its gradients.
      gradients: Gradients of the weights.
      updates: Changes of the weights.
    """
    norm = optax.tree.norm(gradients).astype(jnp.float32)
    totals = totals._replace(gradient_norm=norm, steps=jnp.ones((), jnp.float32))
    is_finite = jnp.isfinite(
        totals.loss + totals.sequence_loss + totals.gradient_norm + optax.tree.norm(updates)
    )

    def choose(new: PyTree, old: PyTree) -> PyTree:
        return jax.tree.map(lambda new, old: jnp.where(is_finite, new, old), new, old)

    counted = ("step", "frozen", "totals", "skipped")
    kept = {name: choose(part, before[name]) for name, part in after.items() if name not in counted}
    totals = choose(totals, jax.tree.map(jnp.zeros_like, totals))._replace(
        skipped=jnp.where(is_finite, 0.0, 1.0)
    )
    skipped = jnp.where(is_finite, 0, before["skipped"] + 1)
    return after | kept | {"totals": add(before["totals"], totals), "skipped": skipped}
