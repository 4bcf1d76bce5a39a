"""Who may look at whom: masks are data made from the batch, never a property of a layer."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


def segment_mask(
    queries: Int[Array, "B L"] | None, keys: Int[Array, "B M"] | None
) -> Bool[Array, "B 1 L M"] | None:
    """True where query and key belong to the same example; ``None`` where every position is real and one row is one.

    Without segments on one side, that side sees all real positions of the other.
    """
    if queries is None:
        return None if keys is None else (keys > 0)[:, None, None, :]
    if keys is None:
        return (queries > 0)[:, None, :, None]
    return (queries[:, :, None] == keys[:, None, :])[:, None]


def causal_mask(queries: Int[Array, " L"], keys: Int[Array, " M"]) -> Bool[Array, "1 1 L M"]:
    """True where the key does not lie after the query."""
    return (keys[None, :] <= queries[:, None])[None, None]


def both(left: Bool[Array, "..."] | None, right: Bool[Array, "..."] | None) -> Bool[Array, "..."] | None:
    """What both masks allow; ``None`` allows everything."""
    if left is None or right is None:
        return right if left is None else left
    return jnp.logical_and(left, right)
