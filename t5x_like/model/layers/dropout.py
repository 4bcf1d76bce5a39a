"""Dropout with explicit keys (Srivastava et al. 2014)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


def dropout(
    x: Float[Array, "*dims"], rate: float, key: Key[Array, ""] | None, *, shared_dim: int | None = None
) -> Float[Array, "*dims"]:
    """Set entries to zero with probability ``rate``, and divide the rest by ``1 - rate``.

    Args:
      x: Activations.
      rate: Probability in [0, 1).
      key: Random key; ``None`` for no dropout.
      shared_dim: Dimension along which all entries share one draw. T5 shares along the length, which saves random
        numbers.
    """
    if key is None or rate == 0.0:
        return x
    shape = list(x.shape)
    if shared_dim is not None:
        shape[shared_dim] = 1
    alive = jnp.broadcast_to(jax.random.bernoulli(key, 1.0 - rate, tuple(shape)), x.shape)
    return jnp.where(alive, x / jnp.asarray(1.0 - rate, x.dtype), jnp.zeros((), x.dtype))


def fold(key: Key[Array, ""] | None, site: int) -> Key[Array, ""] | None:
    """Return the key of dropout site number ``site``; ``None`` stays ``None``.

    Args:
      key: Key of the model or layer; None for no dropout.
      site: Number of the place in the network where dropout acts.
    """
    return None if key is None else jax.random.fold_in(key, site)


def check_rate(name: str, rate: float) -> None:
    """Raise ValueError unless a configuration's field is a probability below 1.

    Args:
      name: Name of the field in messages.
      rate: Value of the field.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"{name} is {rate}; give a probability below 1")
