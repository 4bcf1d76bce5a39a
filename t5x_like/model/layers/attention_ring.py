"""Ring attention: keys and values travel around the devices that hold parts of the queries.

Liu et al. 2023, https://arxiv.org/abs/2310.01889. Each device computes with the keys that it has while it passes them
on. In the backward pass the gradients of keys and values travel with them, and home at the end. One device is a ring
of one. Parts are contiguous: with a causal mask the first device has the fewest keys to see, and waits for the last.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from t5x_like.model.layers.attention_blocks import (
    Average,
    BlockOffsets,
    BlockSizes,
    Inputs,
    MaskInputs,
    Pairs,
    SoftmaxResiduals,
    add_gradients,
    add_keys,
    no_gradients,
    no_keys,
)
from t5x_like.model.layers.masks import AttentionMask
from t5x_like.partitioning.rules import CONTEXT_MESH_AXIS

Carry = TypeVar("Carry")
Tree = TypeVar("Tree")


class KeysOfPart(NamedTuple):
    """Keys and values of a part of the row, or of a prefix; or their gradients."""

    keys: Float[Array, "B M G K"]
    values: Float[Array, "B M G K"]


class RingStep(NamedTuple):
    """Pairs of blocks between a device's queries and the keys that come to it at one step.

    Attributes:
      earlier: Pairs with keys of this device or of an earlier one.
      later: Pairs with keys of a later device.
    """

    earlier: Pairs
    later: Pairs


@dataclass(frozen=True, kw_only=True)
class Ring:
    """Sizes of an attention, known when it is compiled.

    Attributes:
      size: Number of devices, each with a part of the queries and of the keys.
      num_queries: Queries of a part.
      blocks: Sizes between queries of one part and keys of one.
      ring_steps: Pairs of each step; at step ``n`` device ``i`` has the keys of device ``i - n``. Steps after the last
        with any pairs are left out.
      prefix: Sizes between queries and the prefix; ``None`` without one.
    """

    size: int
    num_queries: int
    blocks: BlockSizes
    ring_steps: tuple[RingStep, ...]
    prefix: BlockSizes | None

    def prefix_pairs(self, queries: Array) -> Pairs:
        """Return the pairs of all blocks of queries and the prefix, which is one block."""
        return tuple((query, 0) for query in range(queries.shape[1] // self.blocks.query_length))


class RingConstants(NamedTuple):
    """Inputs without a gradient.

    Attributes:
      mask_inputs: Those of queries are of this device, those of keys of all.
      prefix_mask_inputs: Inputs of masks for the prefix.
      own: Number of this device; 0 in a ring of one.
    """

    mask_inputs: MaskInputs
    prefix_mask_inputs: MaskInputs
    own: int | Int[Array, ""]


def steps_of_ring(
    mask: AttentionMask, size: int, *, num_queries: int, num_keys: int, blocks: BlockSizes
) -> tuple[RingStep, ...]:
    """Return the pairs of blocks between which there is attention, step by step.

    Args:
      mask: Mask between all queries and keys.
      size: Number of devices.
      num_queries: Queries of each device.
      num_keys: Keys of each device.
      blocks: Lengths of blocks.
    """

    def may_see(device: int, step: int, query: int, key: int) -> bool:
        first_query = device * num_queries + query * blocks.query_length
        first_key = (device - step) % size * num_keys + key * blocks.key_length
        return mask.may_see(
            range(first_query, first_query + blocks.query_length),
            range(first_key, first_key + blocks.key_length),
        )

    def pairs(step: int, devices: range) -> Pairs:
        return tuple(
            (query, key)
            for query in range(-(-num_queries // blocks.query_length))
            for key in range(-(-num_keys // blocks.key_length))
            if any(may_see(device, step, query, key) for device in devices)
        )

    # At the first step every device has its own keys, and none those of a later one.
    steps = [
        RingStep(pairs(step, range(step, size)), pairs(step, range(step) or range(size)))
        for step in range(size)
    ]
    last = max(step for step, visit in enumerate(steps) if any(visit))
    return tuple(steps[: last + 1])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def attend(
    ring: Ring, inputs: Inputs, prefix: KeysOfPart | None, others: RingConstants
) -> Float[Array, "B L G J K"]:
    """Return the averages of values over the keys of all devices and of the prefix.

    Args:
      ring: Sizes.
      inputs: Queries, keys and values of this device, and the bias.
      prefix: Keys and values that all queries see, without bias; ``None`` for none.
      others: Inputs without a gradient.
    """
    return _forward(ring, inputs, prefix, others)[0]


def _forward(
    ring: Ring, inputs: Inputs, prefix: KeysOfPart | None, others: RingConstants
) -> tuple[Float[Array, "B L G J K"], PyTree]:
    """Return averages, and what the backward pass needs."""
    average = no_keys(ring.blocks, inputs.queries)
    if prefix is not None:
        assert ring.prefix is not None
        visible = _of_prefix(inputs, prefix)
        pairs = ring.prefix_pairs(inputs.queries)
        average = add_keys(ring.prefix, pairs, average, visible, others.prefix_mask_inputs, BlockOffsets())

    def visit(pairs: Pairs, average: Average, part: KeysOfPart, starts: BlockOffsets) -> Average:
        here = inputs._replace(keys=part.keys, values=part.values)
        return add_keys(ring.blocks, pairs, average, here, others.mask_inputs, starts)

    average = _around(ring, visit, average, KeysOfPart(inputs.keys, inputs.values), others.own)
    total = jnp.moveaxis(average.total, 3, 1)[..., None]
    result = (average.values / total).astype(inputs.queries.dtype)
    return result, (inputs, prefix, others, average.largest, average.total, result)


def _backward(ring: Ring, kept: PyTree, gradient: Array) -> tuple[Inputs, KeysOfPart | None, None]:
    inputs, prefix, others, largest, total, result = kept
    gradient = gradient.astype(inputs.queries.dtype)
    common = jnp.einsum("blgjk,blgjk->bgjl", gradient, result, preferred_element_type=jnp.float32)
    outcome = SoftmaxResiduals(gradient, common, largest, total)
    sums, by_prefix = no_gradients(ring.blocks, inputs), None
    if prefix is not None:
        assert ring.prefix is not None
        inputs_of_type, of_prefix = _of_prefix(inputs, prefix), no_gradients(ring.blocks, prefix)
        gradients = add_gradients(
            ring.prefix,
            ring.prefix_pairs(inputs.queries),
            _of_prefix(sums, of_prefix),
            inputs_of_type,
            outcome,
            others.prefix_mask_inputs,
            BlockOffsets(),
        )
        sums, by_prefix = (
            sums._replace(queries=gradients.queries),
            KeysOfPart(gradients.keys, gradients.values),
        )

    def visit(pairs: Pairs, sums: Inputs, part: KeysOfPart, starts: BlockOffsets) -> Inputs:
        here = inputs._replace(keys=part.keys, values=part.values)
        return add_gradients(ring.blocks, pairs, sums, here, outcome, others.mask_inputs, starts)

    def add_to_arriving(visited: Callable[[Inputs], Inputs], sums: Inputs) -> Inputs:
        # Not added one to the other in ``visited``: the sums arrive while it computes.
        arriving = _pass_on(ring, KeysOfPart(sums.keys, sums.values))
        zeros = no_gradients(ring.blocks, KeysOfPart(inputs.keys, inputs.values))
        new = visited(sums._replace(keys=zeros.keys, values=zeros.values))
        return new._replace(keys=arriving.keys + new.keys, values=arriving.values + new.values)

    own_part = KeysOfPart(inputs.keys, inputs.values)
    sums = _around(ring, visit, sums, own_part, others.own, later_steps=add_to_arriving)
    home = _pass_on(ring, KeysOfPart(sums.keys, sums.values), distance=1 - len(ring.ring_steps))
    sums = sums._replace(keys=home.keys, values=home.values)

    def in_type_of(inputs_of_type: Tree, sums: Tree) -> Tree:
        return jax.tree.map(lambda like, total: total.astype(like.dtype), inputs_of_type, sums)

    return in_type_of(inputs, sums), in_type_of(prefix, by_prefix), None


attend.defvjp(_forward, _backward)


def _of_prefix(inputs: Inputs, prefix: KeysOfPart) -> Inputs:
    return Inputs(inputs.queries, prefix.keys, prefix.values, bias=None)


def _around(
    ring: Ring,
    visit: Callable[[Pairs, Carry, KeysOfPart, BlockOffsets], Carry],
    carry: Carry,
    part: KeysOfPart,
    own: int | Array,
    later_steps: Callable[[Callable[[Carry], Carry], Carry], Carry] = lambda visited, carry: visited(carry),
) -> Carry:
    """Call ``visit`` with the keys that each step brings.

    Args:
      ring: Sizes.
      visit: Returns the new carry.
      carry: What stays on the device.
      part: Keys and values of the device, which travel.
      own: Number of the device.
      later_steps: Runs the visits of all steps but the first.
    """

    def run(pairs: RingStep, step: int | Array, part: KeysOfPart, carry: Carry) -> Carry:
        starts = BlockOffsets(own * ring.num_queries, (own - step) % ring.size * ring.blocks.num_keys)
        branches = [lambda carry, pairs=pairs: visit(pairs, carry, part, starts) for pairs in pairs]
        if pairs.earlier == pairs.later:
            return branches[0](carry)
        return jax.lax.cond(own >= step, *branches, carry)

    def later_step(pairs: RingStep, state: tuple[Carry, KeysOfPart], step: Array) -> tuple[PyTree, None]:
        carry, part = state
        return (later_steps(partial(run, pairs, step, part), carry), _pass_on(ring, part)), None

    state = run(ring.ring_steps[0], 0, part, carry), _pass_on(ring, part)
    for pairs, steps in groupby(range(1, len(ring.ring_steps)), key=ring.ring_steps.__getitem__):
        state, _ = jax.lax.scan(partial(later_step, pairs), state, jnp.asarray(list(steps)))
    return state[0]


def _pass_on(ring: Ring, tree: Tree, distance: int = 1) -> Tree:
    """Return what the device so many places before this one had."""
    if distance % ring.size == 0:
        return tree
    moves = [(device, (device + distance) % ring.size) for device in range(ring.size)]
    return jax.lax.ppermute(tree, CONTEXT_MESH_AXIS, moves)
