"""Kernels of attention for TPU, on pairs of a block of queries and a block of keys (Dao et al. 2022, arXiv 2205.14135).

Scores of one pair exist at a time, in the chip's fast memory. T5's bias of a pair is built from its values by distance.

Shape letters here: T rows of C distances; W = 2 C.
"""

import operator
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Bool, Float

from t5x_like.model.layers.attention_blocks import scale_and_cap
from t5x_like.model.layers.masks import MASKED
from t5x_like.model.layers.pallas_grid import (
    AttentionBlocks,
    Grid,
    KernelIndices,
    KernelInputs,
    KernelMaskInputs,
)

# Numbers in a row of a vector register, and rows. Blocks are multiples of rows long.
LANES, SUBLANES = 128, 8
_BITS = (1, 2, 4)  # of the number of a row


def forward(
    blocks: AttentionBlocks, inputs: KernelInputs, *, interpret: bool
) -> tuple[Float[Array, "B H L K"], Float[Array, "B H 2 L"]]:
    """Return averages, and each query's largest score and sum of exponentials.

    Args:
      blocks: Sizes and the block pairs that may see each other.
      inputs: Queries, keys, values and what acts on their scores.
      interpret: Run the kernel as a program of XLA, on any device.
    """
    batch_size, num_heads, length, head_dim = inputs.queries.shape
    grid = Grid(blocks, inputs, by_key=False)
    return grid.call(
        _forward_kernel,
        num_products=2,
        outputs=(
            (inputs.queries.shape, inputs.queries.dtype, grid.queries_spec),
            ((batch_size, num_heads, 2, length), jnp.float32, grid.statistics_spec(2)),
        ),
        scratch=((1, blocks.query_length), (1, blocks.query_length), (head_dim, blocks.query_length)),
        interpret=interpret,
    )


def backward_queries(
    blocks: AttentionBlocks, inputs: KernelInputs, *, interpret: bool
) -> tuple[Float[Array, "B H L K"], Float[Array, "H T C"] | None]:
    """Return the gradients of queries and of the bias.

    Args:
      blocks: Sizes and the block pairs that may see each other.
      inputs: Inputs of the forward pass and gradients of its output.
      interpret: Run the kernel as a program of XLA, on any device.
    """
    grid = Grid(blocks, inputs, by_key=False)
    by_bias = () if inputs.bias is None else ((inputs.bias.shape, jnp.float32, grid.bias_spec),)
    by_queries, *rest = grid.call(
        _queries_kernel,
        num_products=3,
        outputs=((inputs.queries.shape, inputs.queries.dtype, grid.queries_spec), *by_bias),
        scratch=((inputs.queries.shape[-1], blocks.query_length),),
        interpret=interpret,
    )
    return by_queries, rest[0] if rest else None


def backward_keys(
    blocks: AttentionBlocks, inputs: KernelInputs, *, interpret: bool
) -> tuple[Float[Array, "B G M K"], Float[Array, "B G M K"]]:
    """Return the gradients of keys and values.

    Args:
      blocks: Sizes and the block pairs that may see each other.
      inputs: Inputs of the forward pass and gradients of its output.
      interpret: Run the kernel as a program of XLA, on any device.
    """
    grid = Grid(blocks, inputs, by_key=True)
    return grid.call(
        _keys_kernel,
        num_products=4,
        outputs=tuple((each.shape, each.dtype, grid.keys_spec) for each in (inputs.keys, inputs.values)),
        scratch=((blocks.key_length, inputs.keys.shape[-1]),) * 2,
        interpret=interpret,
    )


def _forward_kernel(
    blocks: AttentionBlocks,
    at: KernelIndices,
    inputs: KernelInputs,
    averages: Any,
    statistics: Any,
    largest: Any,
    total: Any,
    sums: Any,
) -> None:
    """Add a pair to the averages of its queries."""

    @pl.when(at.is_first)
    def start() -> None:
        largest[...] = jnp.full(largest.shape, -jnp.inf)
        total[...] = jnp.zeros(total.shape)
        sums[...] = jnp.zeros(sums.shape)

    scores = _scores(blocks, at, inputs).masked
    old_largest = largest[...]
    new_largest = jnp.maximum(old_largest, jnp.max(scores, axis=0, keepdims=True))
    weights = jnp.exp(scores - new_largest)
    fading = jnp.exp(old_largest - new_largest)
    largest[...] = new_largest
    total[...] = total[...] * fading + jnp.sum(weights, axis=0, keepdims=True)
    weights = _dropped(inputs, weights).astype(inputs.values.dtype)
    sums[...] = sums[...] * fading + _product(inputs.values[...], weights, 0, 0)

    @pl.when(at.is_last)
    def end() -> None:
        averages[...] = (sums[...] / total[...]).T.astype(averages.dtype)
        statistics[0:1, :] = largest[...]
        statistics[1:2, :] = total[...]


def _queries_kernel(
    blocks: AttentionBlocks, at: KernelIndices, inputs: KernelInputs, by_queries: Any, *others: Any
) -> None:
    """Add a pair to the gradients of its queries, and of the bias."""
    *by_bias, sums = others

    @pl.when(at.is_first)
    def start() -> None:
        sums[...] = jnp.zeros(sums.shape)

    _, by_score, by_product = _score_gradients(blocks, at, inputs)
    sums[...] += _product(inputs.keys[...], by_product.astype(inputs.keys.dtype), 0, 0)

    @pl.when(at.is_last)
    def end() -> None:
        by_queries[...] = (blocks.scale * sums[...]).T.astype(by_queries.dtype)

    for by_distance in by_bias:

        @pl.when((pl.program_id(1) == 0) & (pl.program_id(2) == 0))
        def start_bias(by_distance: Any = by_distance) -> None:
            by_distance[...] = jnp.zeros(by_distance.shape)

        row = _bias_row(blocks, at)
        diagonals = _without_prefix(blocks, at, sum_of_diagonals(by_score))
        by_distance[pl.ds(row - 1, 1), :] += diagonals[:, : blocks.key_length]
        by_distance[pl.ds(row, 1), :] += diagonals[:, blocks.key_length :]


def _keys_kernel(
    blocks: AttentionBlocks,
    at: KernelIndices,
    inputs: KernelInputs,
    by_keys: Any,
    by_values: Any,
    key_sums: Any,
    value_sums: Any,
) -> None:
    """Add a pair to the gradients of its keys and values."""

    @pl.when(at.is_first)
    def start() -> None:
        key_sums[...] = jnp.zeros(key_sums.shape)
        value_sums[...] = jnp.zeros(value_sums.shape)

    weights, _, by_product = _score_gradients(blocks, at, inputs)
    key_sums[...] += _product(by_product.astype(inputs.queries.dtype), inputs.queries[...], 1, 0)
    value_sums[...] += _product(weights.astype(inputs.values.dtype), inputs.averages_gradient[...], 1, 0)

    @pl.when(at.is_last)
    def end() -> None:
        by_keys[...] = (blocks.scale * key_sums[...]).astype(by_keys.dtype)
        by_values[...] = value_sums[...].astype(by_values.dtype)


class _Scores(NamedTuple):
    """Scores of a pair.

    Attributes:
      masked: Scores, ``MASKED`` where they are not visible.
      visible: The mask; ``None`` where all is visible.
      slope: Derivative of the soft cap; ``None`` without one.
    """

    masked: Float[Array, "M L"]
    visible: Bool[Array, "M L"] | None
    slope: Float[Array, "M L"] | None


def _scores(blocks: AttentionBlocks, at: KernelIndices, inputs: KernelInputs) -> _Scores:
    """Return scores, with a column for each query: sums over keys are then sums of whole registers."""
    scores = _product(inputs.keys[...], inputs.queries[...], 1, 1)
    scores = scale_and_cap(scores, blocks.scale, blocks.soft_cap)
    slope = None if blocks.soft_cap is None else 1 - (scores / blocks.soft_cap) ** 2
    if inputs.bias is not None:
        row = _bias_row(blocks, at)
        near = [inputs.bias[pl.ds(row - 1, 1), :], inputs.bias[pl.ds(row, 1), :]]
        scores += _without_prefix(blocks, at, diagonals(jnp.concatenate(near, axis=1)))
    visible = _visible(blocks, at, inputs.mask_inputs, scores.shape)
    scores = scores if visible is None else jnp.where(visible, scores, MASKED)
    if blocks.num_keys % blocks.key_length or blocks.num_prefix % blocks.key_length:
        # Padding of a block has no weight, not even in a column where everything is masked.
        is_prefix = at.key >= blocks.first_prefix_block
        key = at.key - jnp.where(is_prefix, blocks.first_prefix_block, 0)
        num_real = jnp.where(is_prefix, blocks.num_prefix, blocks.num_keys) - key * blocks.key_length
        scores = jnp.where(jax.lax.broadcasted_iota(jnp.int32, scores.shape, 0) < num_real, scores, -jnp.inf)
    return _Scores(scores, visible, slope)


def _visible(
    blocks: AttentionBlocks, at: KernelIndices, mask_inputs: KernelMaskInputs, shape: tuple[int, ...]
) -> Bool[Array, "M L"] | None:
    """Return the mask of a pair; see ``AttentionMask.between``."""
    conditions = []
    if mask_inputs.key_segments is not None:
        ids = jnp.broadcast_to(_column(mask_inputs.key_segments[...]), shape)
        conditions = [ids >= mask_inputs.query_segments[0:1], ids <= mask_inputs.query_segments[1:2]]
    if mask_inputs.key_ranks is not None:
        conditions.append(_column(mask_inputs.key_ranks[...]) <= mask_inputs.query_ranks[...])
    window = blocks.window
    if blocks.causal or window is not None:
        # Compared as they are: differences would be one more operation for each pair of a query and a key.
        keys, queries = (jax.lax.broadcasted_iota(jnp.int32, shape, axis) for axis in (0, 1))
        queries += at.query * blocks.query_length - at.key * blocks.key_length
        conditions += [keys <= queries] if blocks.causal else []
        if window is not None:
            conditions += [keys >= queries - window.left]
            conditions += [] if blocks.causal else [keys <= queries + window.right]
    if not conditions:
        return None
    visible = reduce(operator.and_, conditions)
    return visible | (at.key >= blocks.first_prefix_block) if blocks.num_prefix else visible


def _score_gradients(
    blocks: AttentionBlocks, at: KernelIndices, inputs: KernelInputs
) -> tuple[Array, Array, Array]:
    """Return weights after dropout, and gradients of scores and of scaled products of queries and keys."""
    scores = _scores(blocks, at, inputs)
    largest, inverse_total, common = (inputs.statistics[row : row + 1] for row in range(3))
    weights = jnp.exp(scores.masked - largest) * inverse_total
    by_weight = _dropped(inputs, _product(inputs.values[...], inputs.averages_gradient[...], 1, 1))
    by_score = weights * (by_weight - common)
    masks_all = inputs.mask_inputs.key_segments is not None or inputs.mask_inputs.key_ranks is not None
    if scores.visible is not None and masks_all:  # a column where everything is masked has weights
        by_score = jnp.where(scores.visible, by_score, 0.0)
    by_product = by_score if scores.slope is None else by_score * scores.slope
    return _dropped(inputs, weights), by_score, by_product


def _dropped(inputs: KernelInputs, weights: Float[Array, "M L"]) -> Float[Array, "M L"]:
    """Apply dropout to weights, or to their gradients."""
    keep = inputs.mask_inputs.keep
    return weights if keep is None else weights * _column(keep[...].astype(jnp.float32))


def _product(left: Array, right: Array, left_axis: int, right_axis: int) -> Float[Array, "..."]:
    """Return a float32 product that sums over these axes."""
    return jax.lax.dot_general(
        left, right, (((left_axis,), (right_axis,)), ((), ())), preferred_element_type=jnp.float32
    )


def _column(row: Array) -> Array:
    """Turn [1, M] into [M, 1]. The compiler transposes whole registers only."""
    return jnp.broadcast_to(row, (LANES, row.shape[1])).T[:, :1]


def _bias_row(blocks: AttentionBlocks, at: KernelIndices) -> Any:
    """Return the second of the two rows of ``KernelInputs.bias`` that have the distances of a pair."""
    last = blocks.num_query_blocks + blocks.num_key_blocks - 1
    return jnp.clip(at.query - at.key + blocks.num_key_blocks, 1, last)


def _without_prefix(
    blocks: AttentionBlocks, at: KernelIndices, bias: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Return 0 for keys of the prefix, which have no distance."""
    return jnp.where(at.key < blocks.first_prefix_block, bias, 0.0) if blocks.num_prefix else bias


def diagonals(values: Float[Array, "1 W"]) -> Float[Array, "C C"]:
    """Return the matrix with ``values[C + column - row]``.

    Each row is rotated by its number: first within 8 rows, then 16 times 8 rows. A rotation by 128 only renames
    registers.
    """
    width = values.shape[1]
    few = jnp.broadcast_to(values, (SUBLANES, width))
    row = jax.lax.broadcasted_iota(jnp.int32, few.shape, 0)
    for bit in _BITS:
        few = jnp.where(row & bit != 0, pltpu.roll(few, bit, 1), few)
    skewed = jnp.concatenate(
        [pltpu.roll(few, start, 1) if start else few for start in range(0, LANES, SUBLANES)], axis=0
    )
    starts = range(width // 2, 0, -LANES)
    return jnp.concatenate([skewed[:, start : start + width // 2] for start in starts], axis=0)


def sum_of_diagonals(matrix: Float[Array, "C C"]) -> Float[Array, "1 W"]:
    """Return the transpose of ``diagonals``: for each of its values the sum of where it is."""
    length = len(matrix)
    skewed = jnp.zeros((LANES, 2 * length), jnp.float32)
    for start in range(0, length, LANES):
        parts = [jnp.zeros((LANES, length - start)), matrix[start : start + LANES]]
        parts += [jnp.zeros((LANES, start))] if start else []
        skewed += jnp.concatenate(parts, axis=1)
    few = skewed[:SUBLANES]
    for start in range(SUBLANES, LANES, SUBLANES):
        few += pltpu.roll(skewed[start : start + SUBLANES], 2 * length - start, 1)
    row = jax.lax.broadcasted_iota(jnp.int32, few.shape, 0)
    for bit in _BITS:
        few = jnp.where(row & bit != 0, pltpu.roll(few, 2 * length - bit, 1), few)
    return jnp.sum(few, axis=0, keepdims=True)
