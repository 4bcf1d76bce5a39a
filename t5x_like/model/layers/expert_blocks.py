"""Blocks of tokens through experts: each block is the product of one expert, and all choices have room.

A loop runs as many blocks as there are, whatever the shapes have room for. It reads a block's tokens and adds to their
outputs itself, so that no array has room for all choices. ``jax.lax.ragged_dot`` needs such arrays, and on CPUs it
multiplies all rows with all experts (JAX 0.10.2). The loop's name says how many blocks there are about, for counts of
FLOPs.
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


def sum_of_experts(
    function: Callable[[Expert, Array, Any], Array],
    experts: Expert,
    x: Float[Array, "T D"],
    gates: Float[Array, "T P"],
    choices: Int[Array, "N R"],
    expert_of: Int[Array, " N"],
    num_used: Int[Array, ""],
    keys: Key[Array, " N"] | None = None,
    *,
    num_expected: int,
) -> Float[Array, "T D"]:
    """Return the sum of ``gate * function(expert, token, key)`` over each token's choices that have a slot.

    Sums are in float32. The backward pass computes ``function`` again.

    Args:
      function: Called with one expert, tokens [1, R, D] and a key; returns [1, R, D].
      experts: Weights of all experts, stacked along a leading axis.
      x: Tokens.
      gates: Weights of the outputs of each token's experts.
      choices: Choices in the slots of each block, as indices of ``gates`` made flat; T * P in empty slots. A token is
        in a block once.
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
    return _sum(apply, num_expected, learned, others, x, gates, choices, expert_of, num_used, keys)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _sum(
    apply: Callable[..., Array],
    num_expected: int,
    learned: list[Array],
    others: list[Array],
    x: Array,
    gates: Array,
    choices: Array,
    expert_of: Array,
    num_used: Array,
    keys: Array | None,
) -> Array:
    def add_block(n: Array, sums: Array) -> Array:
        parts, tokens = _at((learned, others), expert_of[n]), _tokens_of(choices[n], gates)
        y = apply(*parts, _rows(x, tokens), None if keys is None else keys[n])
        return _add_rows(sums, tokens, y * _rows(gates.reshape(-1, 1), choices[n]))

    with _rounds(num_expected):
        sums = jax.lax.fori_loop(0, num_used, add_block, jnp.zeros(x.shape, jnp.float32))
    return sums.astype(x.dtype)


def _sum_forward(
    apply: Callable[..., Array], num_expected: int, *arguments: Any
) -> tuple[Array, tuple[Any, ...]]:
    return _sum(apply, num_expected, *arguments), arguments


def _sum_backward(
    apply: Callable[..., Array], num_expected: int, arguments: tuple[Any, ...], gradient: Array
) -> tuple[Any, ...]:
    learned, others, x, gates, choices, expert_of, num_used, keys = arguments

    def add_block(n: Array, sums: tuple[list[Array], Array, Array]) -> tuple[list[Array], Array, Array]:
        of_learned, of_x, of_gates = sums
        expert, fixed, tokens = expert_of[n], _at(others, expert_of[n]), _tokens_of(choices[n], gates)

        def of_block(learned: list[Array], block: Array, gates: Array) -> Array:
            return apply(learned, fixed, block, None if keys is None else keys[n]) * gates

        block = _at(learned, expert), _rows(x, tokens), _rows(gates.reshape(-1, 1), choices[n])
        with jax.named_scope(COMPUTED_AGAIN):
            y, pull = jax.vjp(of_block, *block)
        of_expert, of_tokens, of_choices = pull(_rows(gradient, tokens).astype(y.dtype))
        sums_of_expert = jax.tree.map(jnp.add, _at(of_learned, expert), of_expert)
        return (
            _put(of_learned, sums_of_expert, expert),
            _add_rows(of_x, tokens, of_tokens),
            of_gates.at[choices[n]].set(of_choices[:, 0], mode="drop"),
        )

    wide = [jnp.zeros(leaf.shape, jnp.promote_types(leaf.dtype, jnp.float32)) for leaf in learned]
    empty = wide, jnp.zeros(x.shape, jnp.float32), jnp.zeros(gates.size, gates.dtype)
    with _rounds(num_expected):
        sums, of_x, of_gates = jax.lax.fori_loop(0, num_used, add_block, empty)
    of_learned = [total.astype(leaf.dtype) for total, leaf in zip(sums, learned, strict=True)]
    return of_learned, None, of_x.astype(x.dtype), of_gates.reshape(gates.shape), None, None, None, None


_sum.defvjp(_sum_forward, _sum_backward)


def _tokens_of(choices: Array, gates: Array) -> Array:
    """Return the token of each choice of a block; indices beyond the last one, and each once, for empty slots."""
    num_tokens, num_chosen = gates.shape
    beyond = num_tokens + jnp.arange(len(choices), dtype=choices.dtype)
    return jnp.where(choices < num_tokens * num_chosen, choices // num_chosen, beyond)


def _rows(array: Array, index: Array) -> Array:
    """Return rows of an array; 0 for indices beyond the last."""
    return array.at[index].get(mode="fill", fill_value=0)


def _add_rows(sums: Array, index: Array, rows: Array) -> Array:
    """Add to rows of an array; indices are different, and those beyond the last are left out."""
    return sums.at[index].add(rows.astype(sums.dtype), mode="drop", unique_indices=True)


def _at(stacked: Any, index: Array) -> Any:
    """Return the parts of stacked arrays at an index."""
    return jax.tree.map(
        lambda array: jax.lax.dynamic_index_in_dim(
            array, index, keepdims=False, allow_negative_indices=False
        ),
        stacked,
    )


def _put(stacked: Any, parts: Any, index: Array) -> Any:
    """Return stacked arrays with other parts at an index."""
    return jax.tree.map(
        lambda array, part: jax.lax.dynamic_update_index_in_dim(
            array, part.astype(array.dtype), index, 0, allow_negative_indices=False
        ),
        stacked,
        parts,
    )
