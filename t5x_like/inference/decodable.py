"""Functions of a model that decoding needs: scores of the next token, and reordering of its cache."""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Cache = Any  # a pytree of arrays that only the model reads

# Hugging Face's score for beams that don't exist yet: finite, so that sums and comparisons stay ordinary.
IMPOSSIBLE = -1e9


# Reads one token for each row and scores the one after it: int32 [B] gives float32 logits [B, V].
Step: TypeAlias = Callable[[Array, Cache], tuple[Array, Cache]]

# Makes the cache in which beam j of input b is its former beam origins[b, j]: int32 [B, J]. The beams of an input lie
# next to each other among the rows; there may be more of them than before.
Reorder: TypeAlias = Callable[[Cache, Array], Cache]


def is_any_of(tokens: Int[Array, "*dims"], ids: tuple[int, ...]) -> Bool[Array, "*dims"]:
    """Return True where a token is one of ``ids``.

    Args:
      tokens: Token ids.
      ids: Ids to look for.
    """
    is_any = jnp.zeros(tokens.shape, bool)
    for one in ids:
        is_any |= tokens == one
    return is_any


def check_length(max_new_tokens: int) -> None:
    """Raise ValueError unless there is a token to decode."""
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {max_new_tokens}; give at least 1")


def log_probabilities(logits: Float[Array, "B V"]) -> Float[Array, "B V"]:
    """Return the log-softmax in float32."""
    logits = logits.astype(jnp.float32)
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - jnp.log(jnp.exp(shifted).sum(-1, keepdims=True))
