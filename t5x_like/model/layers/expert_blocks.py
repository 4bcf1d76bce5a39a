"""Blocks of tokens through experts: each block is the product of one expert, and all choices have room.

``jax.lax.ragged_dot`` computes the same. On CPUs it multiplies all rows with all experts (JAX 0.10.2). Here a loop
runs as many blocks as there are, whatever the shapes have room for. Its name says how many they are about, for counts
of FLOPs.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

Expert = TypeVar("Expert")

# Name of what the backward pass computes a second time.
COMPUTED_AGAIN = "computed_again"
_ROUNDS = re.compile(r"about_(\d+)_rounds")


def rounds_of(name: str) -> int | None:
    """Return how often the loop of a name runs if all experts are equally busy; ``None`` for other loops.

    Args:
      name: Scopes of the loop, such as "decoder/about_512_rounds/while".
    """
    numbers = _ROUNDS.findall(name)
    return int(numbers[-1]) if numbers else None


def _rounds(number: int) -> Any:
    return jax.named_scope(f"about_{number}_rounds")


def map_blocks(
    function: Callable[[Expert, Array, Any], Array],
    experts: Expert,
    x: Float[Array, "N R D"],
    expert_of: Int[Array, " N"],
    num_used: Int[Array, ""],
    keys: Key[Array, " N"] | None = None,
    *,
    num_expected: int,
) -> Float[Array, "N R F"]:
    """Return ``function(expert, block, key)`` of each block, and 0 for blocks that aren't used.

    The backward pass computes ``function`` again. It adds each block's gradient to that of its expert, in float32.

    Args:
      function: Called with one expert, tokens [1, R, D] and a key; returns [1, R, F].
      experts: Weights of all experts, stacked along a leading axis.
      x: Blocks of tokens.
      expert_of: Expert of each block.
      num_used: Number of blocks that are used, which are the first.
      keys: Random key of each block; ``None`` for none.
      num_expected: Number of blocks that are used if all experts are equally busy.
    """
    leaves, tree = jax.tree.flatten(experts)
    is_learned = [jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves]

    def apply(learned: list[Array], others: list[Array], block: Array, key: Any) -> Array:
        both = iter(learned), iter(others)
        parts = [next(both[0] if each else both[1]) for each in is_learned]
        return function(jax.tree.unflatten(tree, parts), block[None], key)[0]

    learned = [leaf for leaf, each in zip(leaves, is_learned, strict=True) if each]
    others = [leaf for leaf, each in zip(leaves, is_learned, strict=True) if not each]
    return _map(apply, num_expected, learned, others, x, expert_of, num_used, keys)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _map(
    apply: Callable[..., Array],
    num_expected: int,
    learned: list[Array],
    others: list[Array],
    x: Array,
    expert_of: Array,
    num_used: Array,
    keys: Array | None,
) -> Array:
    def of_block(n: Array | int) -> Array:
        parts = _at((learned, others), expert_of[n])
        return apply(*parts, _at(x, n), None if keys is None else keys[n])

    shape = jax.eval_shape(of_block, 0)
    empty = jnp.zeros((x.shape[0], *shape.shape), shape.dtype)
    with _rounds(num_expected):
        return jax.lax.fori_loop(0, num_used, lambda n, y: _put(y, of_block(n), n), empty)


def _map_forward(
    apply: Callable[..., Array], num_expected: int, *arguments: Any
) -> tuple[Array, tuple[Any, ...]]:
    return _map(apply, num_expected, *arguments), arguments


def _map_backward(
    apply: Callable[..., Array], num_expected: int, arguments: tuple[Any, ...], gradient: Array
) -> tuple[Any, ...]:
    learned, others, x, expert_of, num_used, keys = arguments

    def add_block(n: Array, sums: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
        of_x, of_learned = sums
        expert, fixed = expert_of[n], _at(others, expert_of[n])

        def of_block(learned: list[Array], block: Array) -> Array:
            return apply(learned, fixed, block, None if keys is None else keys[n])

        with jax.named_scope(COMPUTED_AGAIN):
            _, pull = jax.vjp(of_block, _at(learned, expert), _at(x, n))
        of_expert, of_one = pull(_at(gradient, n))
        sums_of_expert = jax.tree.map(jnp.add, _at(of_learned, expert), of_expert)
        return _put(of_x, of_one, n), _put(of_learned, sums_of_expert, expert)

    wide = [jnp.zeros(leaf.shape, jnp.promote_types(leaf.dtype, jnp.float32)) for leaf in learned]
    with _rounds(num_expected):
        of_x, sums = jax.lax.fori_loop(0, num_used, add_block, (jnp.zeros_like(x), wide))
    of_learned = [total.astype(leaf.dtype) for total, leaf in zip(sums, learned, strict=True)]
    return of_learned, None, of_x, None, None, None


_map.defvjp(_map_forward, _map_backward)


def _at(stacked: Any, index: Array | int) -> Any:
    """Return the parts of stacked arrays at an index."""
    return jax.tree.map(
        lambda array: jax.lax.dynamic_index_in_dim(
            array, index, keepdims=False, allow_negative_indices=False
        ),
        stacked,
    )


def _put(stacked: Any, parts: Any, index: Array | int) -> Any:
    """Return stacked arrays with other parts at an index."""
    return jax.tree.map(
        lambda array, part: jax.lax.dynamic_update_index_in_dim(
            array, part.astype(array.dtype), index, 0, allow_negative_indices=False
        ),
        stacked,
        parts,
    )
