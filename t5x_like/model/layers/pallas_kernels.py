"""Kernels of attention for TPU, on pairs of a block of queries and a block of keys (Dao et al. 2022, arXiv 2205.14135).

Scores of one pair exist at a time, in the chip's fast memory. T5's bias of a pair is built from its values by distance.

Shape letters here: J heads share keys and values of one of the G groups; T rows of C distances; W = 2 C.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Bool, Float

from t5x_like.model.layers.blockwise_attention import scale_and_cap
from t5x_like.model.layers.masks import MASKED, SlidingWindow

# Numbers in a row of a vector register, and rows. Blocks are multiples of rows long.
LANES, SUBLANES = 128, 8
_BITS = (1, 2, 4)  # of the number of a row


@dataclass(frozen=True, kw_only=True)
class AttentionBlocks:
    """Sizes of one attention, known when it is compiled.

    Attributes:
      query_length: Queries of a block.
      key_length: Keys of a block.
      num_query_blocks: Blocks of queries.
      num_key_blocks: Blocks of keys; those of a prefix are the last.
      num_keys: Keys but for those of the prefix, without padding.
      num_prefix: Keys of the prefix, which all queries see, without padding.
      causal: Keys after the query are hidden.
      window: See ``AttentionMask``.
      pairs: Numbers of the blocks of queries and keys between which there is attention.
      scale: Multiplies scores.
      soft_cap: See ``scale_and_cap``.
    """

    query_length: int
    key_length: int
    num_query_blocks: int
    num_key_blocks: int
    num_keys: int
    num_prefix: int
    causal: bool
    window: SlidingWindow | None
    pairs: tuple[tuple[int, int], ...]
    scale: float
    soft_cap: float | None

    @property
    def first_prefix_block(self) -> int:
        """Number of the first block of the prefix's keys."""
        return self.num_key_blocks - -(-self.num_prefix // self.key_length)


class Sides(NamedTuple):
    """Inputs without a gradient.

    Attributes:
      query_segments: Smallest and largest segment id of visible keys.
      key_segments: Segment ids.
      query_ranks: Largest rank of visible keys.
      key_ranks: Ranks.
      keep: Factor of each head's weight of a key: 0 where dropout drops it.
    """

    query_segments: Any = None  # Int[Array, "B 2 L"]; a block of it inside kernels
    key_segments: Any = None  # Int[Array, "B 1 M"]
    query_ranks: Any = None  # Int[Array, "B 1 L"]
    key_ranks: Any = None  # Int[Array, "B 1 M"]
    keep: Any = None  # Float[Array, "B H 1 M"]


class Inputs(NamedTuple):
    """Inputs of a kernel, padded to whole blocks.

    Attributes:
      queries: Queries.
      keys: Keys.
      values: Values.
      bias: Bias by distance from a key to a query, in rows of a block's length; 0 starts row ``num_key_blocks``.
      sides: See there.
      averages_gradient: Gradient of the averages; for backward kernels.
      statistics: Of each query the largest score, the inverse sum of exponentials, and what the softmax takes off each
        score's gradient; for backward kernels.
    """

    queries: Any  # Float[Array, "B H L K"]; a block of it inside kernels
    keys: Any  # Float[Array, "B G M K"]
    values: Any  # Float[Array, "B G M K"]
    bias: Any  # Float[Array, "H T C"]
    sides: Sides
    averages_gradient: Any = None  # Float[Array, "B H L K"]
    statistics: Any = None  # Float[Array, "B H 3 L"]


_OF_QUERIES = ("queries", "averages_gradient", "statistics", "query_segments", "query_ranks")
_OF_KEYS = ("keys", "values", "key_segments", "key_ranks", "keep")


def forward(
    blocks: AttentionBlocks, inputs: Inputs, *, interpret: bool
) -> tuple[Float[Array, "B H L K"], Float[Array, "B H 2 L"]]:
    """Return averages, and each query's largest score and sum of exponentials."""
    batch_size, num_heads, length, head_dim = inputs.queries.shape
    grid = _Grid(blocks, inputs, by_key=False)
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
    blocks: AttentionBlocks, inputs: Inputs, *, interpret: bool
) -> tuple[Float[Array, "B H L K"], Float[Array, "H T C"] | None]:
    """Return the gradients of queries and of the bias."""
    grid = _Grid(blocks, inputs, by_key=False)
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
    blocks: AttentionBlocks, inputs: Inputs, *, interpret: bool
) -> tuple[Float[Array, "B G M K"], Float[Array, "B G M K"]]:
    """Return the gradients of keys and values."""
    grid = _Grid(blocks, inputs, by_key=True)
    return grid.call(
        _keys_kernel,
        num_products=4,
        outputs=tuple((each.shape, each.dtype, grid.keys_spec) for each in (inputs.keys, inputs.values)),
        scratch=((blocks.key_length, inputs.keys.shape[-1]),) * 2,
        interpret=interpret,
    )


class _Place(NamedTuple):
    """Numbers of what one call of a kernel computes: ``query`` and ``key`` are those of blocks."""

    row: Any
    head: Any
    group: Any
    query: Any
    key: Any
    is_first: Any = None
    is_last: Any = None


class _Grid:
    """Order of a kernel's calls, and blocks of arrays that each takes.

    Sums are kept over pairs with the same block of queries, which follow each other. ``by_key`` those with the same
    block of keys do, each for all heads that share these keys.
    """

    def __init__(self, blocks: AttentionBlocks, inputs: Inputs, *, by_key: bool):
        self.blocks, self.inputs, self.by_key = blocks, inputs, by_key
        batch_size, num_heads, _, self.head_dim = inputs.queries.shape
        num_groups, num_pairs = inputs.keys.shape[1], len(blocks.pairs)
        self.num_shared = num_heads // num_groups
        self.sizes = (num_heads, batch_size, num_pairs)
        if by_key:
            self.sizes = (num_groups, batch_size, num_pairs, self.num_shared)
        self.queries_spec = self._spec(
            (None, None, blocks.query_length, self.head_dim), lambda at: (at.row, at.head, at.query, 0)
        )
        self.keys_spec = self._spec(
            (None, None, blocks.key_length, self.head_dim), lambda at: (at.row, at.group, at.key, 0)
        )
        num_distances = () if inputs.bias is None else inputs.bias.shape[1:]
        self.bias_spec = self._spec((None, *num_distances), lambda at: (at.head, 0, 0))

    def statistics_spec(self, number: int) -> pl.BlockSpec:
        """Return the block of so many numbers of each query and head."""
        return self._spec(
            (None, None, number, self.blocks.query_length), lambda at: (at.row, at.head, 0, at.query)
        )

    def call(
        self,
        kernel: Callable[..., None],
        *,
        num_products: int,
        outputs: tuple[tuple[tuple[int, ...], Any, pl.BlockSpec], ...],
        scratch: tuple[tuple[int, ...], ...],
        interpret: bool,
    ) -> Any:
        """Run a kernel.

        Args:
          kernel: See the functions below.
          num_products: Matrix products in each call.
          outputs: Shape, type and block of each output.
          scratch: Shapes of float32 arrays that one call leaves to the next.
          interpret: Run on any backend.
        """
        pairs = self.blocks.pairs
        pairs = jnp.asarray(sorted(pairs, key=lambda pair: pair[::-1]) if self.by_key else pairs, jnp.int32)

        def run(queries_of: Any, keys_of: Any, *refs: Any) -> None:
            kernel(self.blocks, self._here(queries_of, keys_of), *refs)

        return pl.pallas_call(
            run,
            out_shape=tuple(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype, _ in outputs),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=2,
                grid=self.sizes,
                in_specs=(self._input_specs(),),
                out_specs=tuple(spec for _, _, spec in outputs),
                scratch_shapes=tuple(pltpu.VMEM(shape, jnp.float32) for shape in scratch),
            ),
            compiler_params=pltpu.CompilerParams(
                # Chips with two cores share heads among them.
                dimension_semantics=(pltpu.PARALLEL, *(pltpu.ARBITRARY,) * (len(self.sizes) - 1))
            ),
            cost_estimate=self._cost(num_products, outputs),
            interpret=interpret,
        )(pairs[:, 0], pairs[:, 1], self.inputs)

    def _cost(
        self, num_products: int, outputs: tuple[tuple[tuple[int, ...], Any, Any], ...]
    ) -> pl.CostEstimate:
        """Return what the compiler and ``t5x-like plan`` can't see in a kernel."""
        num_scores = math.prod(self.sizes) * self.blocks.query_length * self.blocks.key_length
        # The side that isn't kept is read again in each call.
        again = _OF_QUERIES if self.by_key else _OF_KEYS
        inputs = {**self.inputs._asdict(), **self.inputs.sides._asdict()}
        specs = self._input_specs()
        blocks = {**specs._asdict(), **specs.sides._asdict()}
        num_bytes = sum(math.prod(shape) * jnp.dtype(dtype).itemsize for shape, dtype, _ in outputs)
        for name in (*_OF_QUERIES, *_OF_KEYS, "bias"):
            if inputs[name] is not None:
                block = [size for size in blocks[name].block_shape if size is not None]
                size = math.prod((*self.sizes, *block)) if name in again else inputs[name].size
                num_bytes += size * inputs[name].dtype.itemsize
        return pl.CostEstimate(
            flops=2 * num_products * self.head_dim * num_scores,
            transcendentals=num_scores * (1 if self.blocks.soft_cap is None else 2),
            bytes_accessed=num_bytes,
        )

    def _place(self, *indices: Any) -> _Place:
        """Return the place of a call from its indices in the grid, and the numbers of blocks in each pair."""
        *numbers, queries_of, keys_of = indices
        first, row, pair, *shared = numbers
        head = first * self.num_shared + shared[0] if shared else first
        group = first if shared else jax.lax.div(first, self.num_shared)
        return _Place(row, head, group, queries_of[pair], keys_of[pair])

    def _here(self, queries_of: Any, keys_of: Any) -> _Place:
        """Return the place of the present call, and whether it is the first or last of a sum."""
        indices = [pl.program_id(axis) for axis in range(len(self.sizes))]
        pair, last_pair, of = indices[2], self.sizes[2] - 1, keys_of if self.by_key else queries_of
        is_first = (pair == 0) | (of[jnp.maximum(pair - 1, 0)] != of[pair])
        is_last = (pair == last_pair) | (of[jnp.minimum(pair + 1, last_pair)] != of[pair])
        if self.by_key:
            is_first, is_last = is_first & (indices[3] == 0), is_last & (indices[3] == self.num_shared - 1)
        return self._place(*indices, queries_of, keys_of)._replace(is_first=is_first, is_last=is_last)

    def _spec(self, shape: tuple[int | None, ...], of: Callable[[_Place], tuple[Any, ...]]) -> pl.BlockSpec:
        return pl.BlockSpec(shape, lambda *indices: of(self._place(*indices)))

    def _input_specs(self) -> Inputs:
        queries, keys = self.blocks.query_length, self.blocks.key_length
        specs = Inputs(
            queries=self.queries_spec,
            keys=self.keys_spec,
            values=self.keys_spec,
            bias=self.bias_spec,
            sides=Sides(
                query_segments=self._spec((None, 2, queries), lambda at: (at.row, 0, at.query)),
                key_segments=self._spec((None, 1, keys), lambda at: (at.row, 0, at.key)),
                query_ranks=self._spec((None, 1, queries), lambda at: (at.row, 0, at.query)),
                key_ranks=self._spec((None, 1, keys), lambda at: (at.row, 0, at.key)),
                keep=self._spec((None, None, 1, keys), lambda at: (at.row, at.head, 0, at.key)),
            ),
            averages_gradient=self.queries_spec,
            statistics=self.statistics_spec(3),
        )
        return jax.tree.map(
            lambda given, spec: None if given is None else spec,
            self.inputs,
            specs,
            is_leaf=lambda given: given is None,
        )


def _forward_kernel(
    blocks: AttentionBlocks,
    at: _Place,
    inputs: Inputs,
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
    blocks: AttentionBlocks, at: _Place, inputs: Inputs, by_queries: Any, *others: Any
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
        found = _without_prefix(blocks, at, sum_of_diagonals(by_score))
        by_distance[pl.ds(row - 1, 1), :] += found[:, : blocks.key_length]
        by_distance[pl.ds(row, 1), :] += found[:, blocks.key_length :]


def _keys_kernel(
    blocks: AttentionBlocks,
    at: _Place,
    inputs: Inputs,
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


def _scores(blocks: AttentionBlocks, at: _Place, inputs: Inputs) -> _Scores:
    """Return scores, with a column for each query: sums over keys are then sums of whole registers."""
    scores = _product(inputs.keys[...], inputs.queries[...], 1, 1)
    scores = scale_and_cap(scores, blocks.scale, blocks.soft_cap)
    slope = None if blocks.soft_cap is None else 1 - (scores / blocks.soft_cap) ** 2
    if inputs.bias is not None:
        row = _bias_row(blocks, at)
        near = [inputs.bias[pl.ds(row - 1, 1), :], inputs.bias[pl.ds(row, 1), :]]
        scores += _without_prefix(blocks, at, diagonals(jnp.concatenate(near, axis=1)))
    visible = _visible(blocks, at, inputs.sides, scores.shape)
    scores = scores if visible is None else jnp.where(visible, scores, MASKED)
    if blocks.num_keys % blocks.key_length or blocks.num_prefix % blocks.key_length:
        # Padding of a block has no weight, not even in a column where everything is masked.
        is_prefix = at.key >= blocks.first_prefix_block
        key = at.key - jnp.where(is_prefix, blocks.first_prefix_block, 0)
        number = jnp.where(is_prefix, blocks.num_prefix, blocks.num_keys) - key * blocks.key_length
        scores = jnp.where(jax.lax.broadcasted_iota(jnp.int32, scores.shape, 0) < number, scores, -jnp.inf)
    return _Scores(scores, visible, slope)


def _visible(
    blocks: AttentionBlocks, at: _Place, sides: Sides, shape: tuple[int, ...]
) -> Bool[Array, "M L"] | None:
    """Return the mask of a pair; see ``AttentionMask.between``."""
    conditions = []
    if sides.key_segments is not None:
        ids = jnp.broadcast_to(_column(sides.key_segments[...]), shape)
        conditions = [ids >= sides.query_segments[0:1], ids <= sides.query_segments[1:2]]
    if sides.key_ranks is not None:
        conditions.append(_column(sides.key_ranks[...]) <= sides.query_ranks[...])
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


def _score_gradients(blocks: AttentionBlocks, at: _Place, inputs: Inputs) -> tuple[Array, Array, Array]:
    """Return weights after dropout, and gradients of scores and of scaled products of queries and keys."""
    scores = _scores(blocks, at, inputs)
    largest, inverse_total, common = (inputs.statistics[number : number + 1] for number in range(3))
    weights = jnp.exp(scores.masked - largest) * inverse_total
    by_weight = _dropped(inputs, _product(inputs.values[...], inputs.averages_gradient[...], 1, 1))
    by_score = weights * (by_weight - common)
    masks_all = inputs.sides.key_segments is not None or inputs.sides.key_ranks is not None
    if scores.visible is not None and masks_all:  # a column where everything is masked has weights
        by_score = jnp.where(scores.visible, by_score, 0.0)
    by_product = by_score if scores.slope is None else by_score * scores.slope
    return _dropped(inputs, weights), by_score, by_product


def _dropped(inputs: Inputs, weights: Float[Array, "M L"]) -> Float[Array, "M L"]:
    """Apply dropout to weights, or to their gradients."""
    keep = inputs.sides.keep
    return weights if keep is None else weights * _column(keep[...].astype(jnp.float32))


def _product(left: Array, right: Array, left_axis: int, right_axis: int) -> Float[Array, "..."]:
    """Return a float32 product that sums over these axes."""
    return jax.lax.dot_general(
        left, right, (((left_axis,), (right_axis,)), ((), ())), preferred_element_type=jnp.float32
    )


def _column(row: Array) -> Array:
    """Turn [1, M] into [M, 1]. The compiler transposes whole registers only."""
    return jnp.broadcast_to(row, (LANES, row.shape[1])).T[:, :1]


def _bias_row(blocks: AttentionBlocks, at: _Place) -> Any:
    """Return the second of the two rows of ``Inputs.bias`` that have the distances of a pair."""
    last = blocks.num_query_blocks + blocks.num_key_blocks - 1
    return jnp.clip(at.query - at.key + blocks.num_key_blocks, 1, last)


def _without_prefix(blocks: AttentionBlocks, at: _Place, bias: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return 0 for keys of the prefix, which have no distance."""
    return jnp.where(at.key < blocks.first_prefix_block, bias, 0.0) if blocks.num_prefix else bias


def diagonals(values: Float[Array, "1 W"]) -> Float[Array, "C C"]:
    """Return the matrix with ``values[C + column - row]``.

    Each row is rotated by its number: first within 8 rows, then 16 times 8 rows. A rotation by 128 only renames
    registers.
    """
    width = values.shape[1]
    few = jnp.broadcast_to(values, (SUBLANES, width))
    number = jax.lax.broadcasted_iota(jnp.int32, few.shape, 0)
    for bit in _BITS:
        few = jnp.where(number & bit != 0, pltpu.roll(few, bit, 1), few)
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
    number = jax.lax.broadcasted_iota(jnp.int32, few.shape, 0)
    for bit in _BITS:
        few = jnp.where(number & bit != 0, pltpu.roll(few, 2 * length - bit, 1), few)
    return jnp.sum(few, axis=0, keepdims=True)
