"""The loop over tokens, from which finished rows are taken once few others are left.

Few rows of a batch write long answers. Without the others each of their tokens costs less.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from t5x_like.inference.decodable import Cache

# A named tuple with a field ``cache``; all others are scalars, or trees of arrays with an entry for each input.
Search = TypeVar("Search", bound=Any)

# Makes the cache of the inputs with the given indices: int32 [C]. The second argument is the number of inputs so far.
KeepInputs: TypeAlias = Callable[[Cache, Array, int], Cache]


def decode_until_done(
    continues: Callable[[Search], Bool[Array, ""]],
    advance: Callable[[Search], Search],
    search: Search,
    *,
    ended: Callable[[Search], Bool[Array, " B"]],
    keep_inputs: KeepInputs | None,
    num_last_inputs: int | None,
) -> Search:
    """Return the state after the last token; its cache is of no use, or ``None``.

    Args:
      continues: Whether there is another token to decode.
      advance: Decodes one token of each row.
      search: State before the first token.
      ended: Which inputs are finished.
      keep_inputs: Takes inputs out of a cache.
      num_last_inputs: Number of unfinished inputs from which on only these are computed; ``None`` computes all to the
        end.
    """
    num_inputs = len(ended(search))
    if keep_inputs is None or num_last_inputs is None or num_last_inputs >= num_inputs:
        return jax.lax.while_loop(continues, advance, search)

    def many_continue(search: Search) -> Array:
        return continues(search) & (jnp.sum(~ended(search)) > num_last_inputs)

    search = jax.lax.while_loop(many_continue, advance, search)
    unfinished: Int[Array, " C"] = jnp.argsort(ended(search), stable=True)[:num_last_inputs]
    inputs = search._replace(cache=None)
    last = jax.tree.map(lambda each: each[unfinished] if each.ndim else each, inputs)
    last = last._replace(cache=keep_inputs(search.cache, unfinished, num_inputs))
    last = jax.lax.while_loop(continues, advance, last)
    return jax.tree.map(
        lambda each, new: each.at[unfinished].set(new) if each.ndim else new,
        inputs,
        last._replace(cache=None),
    )
