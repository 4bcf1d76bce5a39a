"""Refusal of weights that are NaN or infinite."""

import jax
import jax.numpy as jnp

from t5x_like.model.parameters import Parameters


class NotNumbersError(ValueError):
    """Weights that are NaN or infinite, as a training leaves that diverged."""


def require_numbers(params: Parameters, name: str) -> None:
    """Check that all weights are finite.

    Args:
      params: Weights.
      name: Name of the model in messages.

    Raises:
      NotNumbersError: Some are NaN or infinite.
    """
    finite = jax.jit(lambda tree: jax.tree.map(lambda leaf: jnp.isfinite(leaf).all(), tree))(params)
    bad = [
        jax.tree_util.keystr(path, simple=True, separator="/")
        for path, good in jax.tree.leaves_with_path(finite)
        if not good
    ]
    if bad:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise NotNumbersError(
            f"{name}: weights are NaN or infinite ({bad[0]}{more}), they can't be used; take others, such as those of "
            "an earlier step"
        )
