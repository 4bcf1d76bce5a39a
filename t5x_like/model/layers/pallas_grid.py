"""Grid of the attention kernels: which blocks of arrays each call takes, and in what order.

Shape letters here: J heads share keys and values of one of the G groups; T rows of C distances.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from t5x_like.model.layers.masks import SlidingWindow


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


class KernelMaskInputs(NamedTuple):
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


class KernelInputs(NamedTuple):
    """Inputs of a kernel, padded to whole blocks.

    Attributes:
      queries: Queries.
      keys: Keys.
      values: Values.
      bias: Bias by distance from a key to a query, in rows of a block's length; 0 starts row ``num_key_blocks``.
      mask_inputs: Segments and ranks that limit attention, and dropout.
      averages_gradient: Gradient of the averages; for backward kernels.
      statistics: Statistics of each query's softmax, for backward kernels. They are the largest score, the inverse sum
        of exponentials, and what the softmax takes off each score's gradient.
    """

    queries: Any  # Float[Array, "B H L K"]; a block of it inside kernels
    keys: Any  # Float[Array, "B G M K"]
    values: Any  # Float[Array, "B G M K"]
    bias: Any  # Float[Array, "H T C"]
    mask_inputs: KernelMaskInputs
    averages_gradient: Any = None  # Float[Array, "B H L K"]
    statistics: Any = None  # Float[Array, "B H 3 L"]


_OF_QUERIES = ("queries", "averages_gradient", "statistics", "query_segments", "query_ranks")
_OF_KEYS = ("keys", "values", "key_segments", "key_ranks", "keep")


class KernelIndices(NamedTuple):
    """Numbers of what one call of a kernel computes.

    Attributes:
      row: Row of the batch.
      head: Query head.
      group: Head of keys and values.
      query: Block of queries.
      key: Block of keys.
      is_first: Whether sums start with this call.
      is_last: Whether sums end with it.
    """

    row: Any
    head: Any
    group: Any
    query: Any
    key: Any
    is_first: Any = None
    is_last: Any = None


class Grid:
    """Order of a kernel's calls, and blocks of arrays that each takes.

    Sums are kept over pairs with the same block of queries, which follow each other. ``by_key`` those with the same
    block of keys do, each for all heads that share these keys.
    """

    def __init__(self, blocks: AttentionBlocks, inputs: KernelInputs, *, by_key: bool):
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

    def statistics_spec(self, num_statistics: int) -> pl.BlockSpec:
        """Return the block of so many numbers of each query and head."""
        return self._spec(
            (None, None, num_statistics, self.blocks.query_length), lambda at: (at.row, at.head, 0, at.query)
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
          kernel: Called with the blocks, a place, and references to inputs, outputs and scratch.
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
        inputs = {**self.inputs._asdict(), **self.inputs.mask_inputs._asdict()}
        specs = self._input_specs()
        blocks = {**specs._asdict(), **specs.mask_inputs._asdict()}
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

    def _at(self, *indices: Any) -> KernelIndices:
        """Return the place of a call from its indices in the grid, and the numbers of blocks in each pair."""
        *numbers, queries_of, keys_of = indices
        first, row, pair, *shared = numbers
        head = first * self.num_shared + shared[0] if shared else first
        group = first if shared else jax.lax.div(first, self.num_shared)
        return KernelIndices(row, head, group, queries_of[pair], keys_of[pair])

    def _here(self, queries_of: Any, keys_of: Any) -> KernelIndices:
        """Return the place of the present call, and whether it is the first or last of a sum."""
        indices = [pl.program_id(axis) for axis in range(len(self.sizes))]
        pair, last_pair, of = indices[2], self.sizes[2] - 1, keys_of if self.by_key else queries_of
        is_first = (pair == 0) | (of[jnp.maximum(pair - 1, 0)] != of[pair])
        is_last = (pair == last_pair) | (of[jnp.minimum(pair + 1, last_pair)] != of[pair])
        if self.by_key:
            is_first, is_last = is_first & (indices[3] == 0), is_last & (indices[3] == self.num_shared - 1)
        return self._at(*indices, queries_of, keys_of)._replace(is_first=is_first, is_last=is_last)

    def _spec(
        self, shape: tuple[int | None, ...], of: Callable[[KernelIndices], tuple[object, ...]]
    ) -> pl.BlockSpec:
        return pl.BlockSpec(shape, lambda *indices: of(self._at(*indices)))

    def _input_specs(self) -> KernelInputs:
        queries, keys = self.blocks.query_length, self.blocks.key_length
        specs = KernelInputs(
            queries=self.queries_spec,
            keys=self.keys_spec,
            values=self.keys_spec,
            bias=self.bias_spec,
            mask_inputs=KernelMaskInputs(
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
            lambda array, spec: None if array is None else spec,
            self.inputs,
            specs,
            is_leaf=lambda array: array is None,
        )
