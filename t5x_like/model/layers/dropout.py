"""Dropout with explicit keys (Srivastava et al. 2014)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


def dropout(
    x: Float[Array, "*dims"], rate: float, key: Key[Array, ""] | None, *, shared_dim: int | None = None
) -> Float[Array, "*dims"]:
    """Zeroes entries with probability ``rate`` and scales the rest up; without a key nothing happens.

    Entries along ``shared_dim`` live or die together: T5's way along the length, which saves random numbers.
    """
    if key is None or rate == 0.0:
        return x
    shape = list(x.shape)
    if shared_dim is not None:
        shape[shared_dim] = 1
    alive = jnp.broadcast_to(jax.random.bernoulli(key, 1.0 - rate, tuple(shape)), x.shape)
    return jnp.where(alive, x / jnp.asarray(1.0 - rate, x.dtype), jnp.zeros((), x.dtype))


def fold(key: Key[Array, ""] | None, site: int) -> Key[Array, ""] | None:
    """The key of one dropout site among those that share ``key``."""
    return None if key is None else jax.random.fold_in(key, site)
