"""Attention by our own Pallas kernels for TPU, with a gradient and on a mesh.

On other backends than TPU the kernels are interpreted: slow, and the same numbers.
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, PyTree

from t5x_like.model.layers import pallas_kernels
from t5x_like.model.layers.masks import AttentionMask
from t5x_like.model.layers.pallas_grid import AttentionBlocks, KernelInputs, KernelMaskInputs
from t5x_like.model.layers.pallas_kernels import LANES
from t5x_like.model.layers.positions import DistanceBias
from t5x_like.partitioning.activations import HEADS, ROWS, map_heads, num_parts_of_heads

# Longest block of queries and of keys: 512 x 512 float32 scores are 1 MiB of fast memory.
BLOCK_LENGTH = 512


def pallas_attention(
    queries: Float[Array, "B L H K"],
    keys: Float[Array, "B PM G K"],
    values: Float[Array, "B PM G K"],
    *,
    mask: AttentionMask,
    bias: DistanceBias | None,
    keep: Float[Array, "B H PM"] | None,
    num_prefix: int,
    scale: float = 1.0,
    soft_cap: float | None = None,
) -> Float[Array, "B L H K"]:
    """Return each query's weighted average of values, computed by kernels for TPUs.

    Args:
      queries: Queries, whose indices count from 0.
      keys: Keys of the prefix, then others, whose indices count from 0.
      values: Values of the keys.
      mask: Mask between queries and the keys after the prefix, without ``allowed``.
      bias: Added to scores of the keys after the prefix.
      keep: Factor of each weight after the softmax, for dropout.
      num_prefix: Number of keys of the prefix, which are visible to all queries.
      scale: Multiplies scores.
      soft_cap: Largest magnitude of scaled scores, by tanh; ``None`` for no cap.
    """
    assert mask.allowed is None, "refused before"
    length, num_keys = queries.shape[1], keys.shape[1] - num_prefix
    query_length, key_length = _block_length(length), _block_length(num_keys)
    if bias is not None:  # which is cut into rows of one length
        query_length = key_length = max(query_length, key_length)
    num_query_blocks, num_key_blocks = -(-length // query_length), -(-num_keys // key_length)
    num_prefix_blocks = -(-num_prefix // key_length)
    pairs = _visible_pairs(mask, range(0, length, query_length), range(0, num_keys, key_length))
    computed = {query for query, _ in pairs}, {key for _, key in pairs}
    assert computed == (set(range(num_query_blocks)), set(range(num_key_blocks))), "a block without result"
    prefix_blocks = range(num_key_blocks, num_key_blocks + num_prefix_blocks)
    blocks = AttentionBlocks(
        query_length=query_length,
        key_length=key_length,
        num_query_blocks=num_query_blocks,
        num_key_blocks=num_key_blocks + num_prefix_blocks,
        num_keys=num_keys,
        num_prefix=num_prefix,
        causal=mask.causal and mask.query_ranks is None and mask.prefix is None,
        window=mask.window,
        pairs=tuple(
            sorted([*pairs, *((query, key) for query in range(num_query_blocks) for key in prefix_blocks)])
        ),
        scale=scale,
        soft_cap=soft_cap,
    )

    def pad_keys(array: Array, axis: int = 1) -> Array:
        """Put keys of the prefix after the others, and pad both to whole blocks."""
        prefix, others = jnp.split(array, [num_prefix], axis=axis)
        others = _padded(others, axis, num_key_blocks * key_length)
        return jnp.concatenate([others, _padded(prefix, axis, num_prefix_blocks * key_length)], axis=axis)

    # Where groups can't be split over devices as heads are, each device has copies of those that its heads share.
    num_groups = keys.shape[2]
    copies = math.lcm(num_groups, num_parts_of_heads(queries.shape[2])) // num_groups
    if copies > 1:
        keys, values = (jnp.repeat(each, copies, axis=2) for each in (keys, values))
    mask_inputs = _mask_inputs(blocks, mask, len(queries), length)
    averages: Array = _attend(
        blocks,
        _padded(queries, 1, num_query_blocks * query_length),
        pad_keys(keys),
        pad_keys(values),
        None if bias is None else bias.values.astype(jnp.float32),
        mask_inputs._replace(keep=None if keep is None else pad_keys(keep, 2)[:, :, None]),
    )
    return averages[:, :length]


def _visible_pairs(mask: AttentionMask, queries: range, keys: range) -> list[tuple[int, int]]:
    """Return the numbers of blocks between which there is attention, whatever the batch contains.

    Args:
      mask: Mask between queries and keys.
      queries: Place of each block's first query, with the length of blocks as its step.
      keys: Place of each block's first key, with the length of blocks as its step.
    """
    return [
        (query_block, key_block)
        for query_block, query in enumerate(queries)
        for key_block, key in enumerate(keys)
        if mask.may_see(range(query, query + queries.step), range(key, key + keys.step))
    ]


def _block_length(length: int) -> int:
    return min(BLOCK_LENGTH, -(-length // LANES) * LANES)


def _padded(array: Array, axis: int, length: int) -> Array:
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, length - array.shape[axis])
    return jnp.pad(array, widths)


def _mask_inputs(
    blocks: AttentionBlocks, mask: AttentionMask, batch_size: int, length: int
) -> KernelMaskInputs:
    """Return the mask as few numbers of each query and each key, which kernels compare."""

    def rows(*numbers: Array, padded_length: int) -> Array:
        together = jnp.stack(
            [jnp.broadcast_to(each, (batch_size, each.shape[1])) for each in numbers], axis=1
        )
        return _padded(together, 2, padded_length)

    of_queries = partial(rows, padded_length=blocks.num_query_blocks * blocks.query_length)
    of_keys = partial(rows, padded_length=blocks.num_key_blocks * blocks.key_length)
    mask_inputs = KernelMaskInputs()
    queries, keys = mask.query_segment_ids, mask.key_segment_ids
    if queries is not None or keys is not None:
        # A query sees segment ids from its own to its own; padding sees all of tokens. See ``segment_mask``.
        largest = 0 if keys is None else jnp.iinfo(jnp.int32).max
        keys = jnp.ones((1, blocks.num_keys), jnp.int32) if keys is None else keys
        queries = jnp.zeros((1, length), jnp.int32) if queries is None else queries
        queries = jnp.minimum(queries, 1) if mask.key_segment_ids is None else queries
        mask_inputs = mask_inputs._replace(
            query_segments=of_queries(jnp.maximum(queries, 1), jnp.where(queries > 0, queries, largest)),
            key_segments=of_keys(keys),
        )
    ranks, key_ranks = mask.query_ranks, mask.key_ranks
    if blocks.causal or not (mask.causal or ranks is not None):
        return mask_inputs
    if ranks is None or key_ranks is None:  # causal, with a prefix
        ranks, key_ranks = jnp.arange(length)[None], jnp.arange(blocks.num_keys)[None]
    if mask.prefix is not None:
        key_ranks = jnp.where(mask.prefix > 0, jnp.iinfo(jnp.int32).min, key_ranks)
    return mask_inputs._replace(query_ranks=of_queries(ranks), key_ranks=of_keys(key_ranks))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(
    blocks: AttentionBlocks,
    queries: Array,
    keys: Array,
    values: Array,
    bias: Array | None,
    mask_inputs: KernelMaskInputs,
) -> Float[Array, "B L H K"]:
    return _forward(blocks, queries, keys, values, bias, mask_inputs)[0]


_VECTORS, _NUMBERS, _SIDES = (
    PartitionSpec(ROWS, None, HEADS),
    PartitionSpec(ROWS, HEADS),
    KernelMaskInputs(*(PartitionSpec(ROWS),) * 4, keep=PartitionSpec(ROWS, HEADS)),
)
_INPUTS = (_VECTORS, _VECTORS, _VECTORS, PartitionSpec(HEADS), _SIDES)


def _forward(
    blocks: AttentionBlocks,
    queries: Array,
    keys: Array,
    values: Array,
    bias: Array | None,
    mask_inputs: KernelMaskInputs,
) -> tuple[Array, PyTree]:
    """Return averages, and what the backward pass needs."""
    run = partial(_on_platform, partial(_run_forward, blocks))
    inputs = queries, keys, values, bias, mask_inputs
    averages, statistics = map_heads(run, inputs, _INPUTS, (_VECTORS, _NUMBERS), sizes=queries.shape[::2])
    return averages, (*inputs, averages, statistics)


def _backward(blocks: AttentionBlocks, kept: PyTree, gradient: Array) -> tuple[Array | None, ...]:
    run = partial(_on_platform, partial(_run_backward, blocks))
    inputs, outputs = (*_INPUTS, _VECTORS, _NUMBERS, _VECTORS), (_VECTORS, _VECTORS, _VECTORS, _NUMBERS)
    *gradients, by_bias = map_heads(run, (*kept, gradient), inputs, outputs, sizes=gradient.shape[::2])
    return (*gradients, None if by_bias is None else by_bias.sum(0), None)


_attend.defvjp(_forward, _backward)


def _on_platform(run: Callable[..., object], *arguments: object) -> object:
    """Call ``run`` with ``interpret=False`` in a program for TPU, and with ``interpret=True`` in others."""
    compiled, interpreted = partial(run, interpret=False), partial(run, interpret=True)
    return jax.lax.platform_dependent(*arguments, tpu=compiled, default=interpreted)


def _run_forward(
    blocks: AttentionBlocks,
    queries: Array,
    keys: Array,
    values: Array,
    bias: Array | None,
    mask_inputs: KernelMaskInputs,
    *,
    interpret: bool,
) -> tuple[Array, Array]:
    inputs = _inputs(blocks, queries, keys, values, bias, mask_inputs)
    averages, statistics = pallas_kernels.forward(blocks, inputs, interpret=interpret)
    return _swapped(averages), statistics


def _run_backward(
    blocks: AttentionBlocks,
    queries: Array,
    keys: Array,
    values: Array,
    bias: Array | None,
    mask_inputs: KernelMaskInputs,
    averages: Array,
    statistics: Array,
    gradient: Array,
    *,
    interpret: bool,
) -> tuple[Array | None, ...]:
    """Return gradients of queries, keys and values, and of the bias with a leading axis for the group of rows."""
    common = jnp.einsum("blhk,blhk->bhl", gradient, averages, preferred_element_type=jnp.float32)
    inputs = _inputs(blocks, queries, keys, values, bias, mask_inputs)._replace(
        averages_gradient=_swapped(gradient),
        statistics=jnp.stack([statistics[:, :, 0], 1 / statistics[:, :, 1], common], axis=2),
    )
    by_queries, by_rows = pallas_kernels.backward_queries(blocks, inputs, interpret=interpret)
    by_keys, by_values = pallas_kernels.backward_keys(blocks, inputs, interpret=interpret)
    by_bias = None
    if bias is not None and by_rows is not None:
        start = blocks.num_key_blocks * blocks.key_length - bias.shape[1] // 2
        by_bias = by_rows.reshape(len(bias), -1)[None, :, start : start + bias.shape[1]][..., ::-1]
    return _swapped(by_queries), _swapped(by_keys), _swapped(by_values), by_bias


def _inputs(
    blocks: AttentionBlocks,
    queries: Array,
    keys: Array,
    values: Array,
    bias: Array | None,
    mask_inputs: KernelMaskInputs,
) -> KernelInputs:
    return KernelInputs(
        _swapped(queries), _swapped(keys), _swapped(values), _in_rows(blocks, bias), mask_inputs
    )


def _in_rows(blocks: AttentionBlocks, bias: Float[Array, "H R"] | None) -> Float[Array, "H T C"] | None:
    """Return the bias as ``KernelInputs`` has it."""
    if bias is None:
        return None
    before = blocks.num_key_blocks * blocks.key_length - bias.shape[1] // 2
    num_rows = blocks.num_query_blocks + blocks.num_key_blocks
    after = num_rows * blocks.key_length - before - bias.shape[1]
    return jnp.pad(bias[:, ::-1], ((0, 0), (before, after))).reshape(len(bias), num_rows, blocks.key_length)


def _swapped(array: Array) -> Array:
    """Exchange the axes of places and heads."""
    return jnp.swapaxes(array, 1, 2)
