"""Scores, averages and gradients between a part of the queries and a part of the keys, block by block.

Scores of one pair of blocks exist at a time: a running maximum and sum normalize them (Milakov and Gimelshein 2018,
https://arxiv.org/abs/1805.02867), and the backward pass computes them again (Dao et al. 2022,
https://arxiv.org/abs/2205.14135). Biases and masks are made for each pair from what they depend on.

Shape letters here: J heads share keys and values of one of the G groups; R distances.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from t5x_like.model.layers.masks import MASKED, AttentionMask, SlidingWindow
from t5x_like.model.layers.relative_attention import shift

Tree = TypeVar("Tree")

# Numbers of the blocks of queries and keys between which there is attention.
Pairs: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class BlockSizes:
    """Sizes of one attention, known when it is compiled.

    Attributes:
      query_length: Queries of a block.
      key_length: Keys of a block.
      num_keys: Keys of a part, without the padding of its last block.
      causal: See ``AttentionMask``.
      window: See ``AttentionMask``.
      scale: Multiplies scores.
      soft_cap: See ``scale_and_cap``.
      varying_axes: Mesh axes of ``jax.shard_map``, along which all inputs vary; none outside of it.
    """

    query_length: int
    key_length: int
    num_keys: int
    causal: bool
    window: SlidingWindow | None
    scale: float
    soft_cap: float | None
    varying_axes: tuple[str, ...]


class Inputs(NamedTuple):
    """Inputs with a gradient, or their gradients.

    Attributes:
      queries: A part of the queries, padded to whole blocks.
      keys: A part of the keys, likewise.
      values: Their values.
      bias: Bias of each head by distance, with distance 0 in the middle; ``None`` for none.
    """

    queries: Float[Array, "B L G J K"]
    keys: Float[Array, "B M G K"]
    values: Float[Array, "B M G K"]
    bias: Float[Array, "H R"] | None


class MaskInputs(NamedTuple):
    """Inputs without a gradient; those of keys are whole rows, of which the keys may be a part.

    Attributes:
      mask: Arrays of the mask, padded to whole blocks, and ``None`` for what is in ``BlockSizes``.
      keep: Factor of each head's weight of a key: 0 where dropout drops it.
    """

    mask: AttentionMask
    keep: Float[Array, "B H M"] | None


class BlockOffsets(NamedTuple):
    """Positions in the row of the first query and of the first key of their parts."""

    query: int | Int[Array, ""] = 0
    key: int | Int[Array, ""] = 0


class Average(NamedTuple):
    """Weighted averages of values over the keys so far.

    Attributes:
      largest: Largest score of each query.
      total: Sum of weights, which are relative to the largest score.
      values: Sum of weighted values.
    """

    largest: Float[Array, "B G J L"]
    total: Float[Array, "B G J L"]
    values: Float[Array, "B L G J K"]


class SoftmaxResiduals(NamedTuple):
    """Values of the forward pass that gradients of scores need.

    Attributes:
      gradient: Gradient of the averages.
      common: What the softmax takes off each score's gradient: the average of its row.
      largest: See ``Average``.
      total: See ``Average``.
    """

    gradient: Float[Array, "B L G J K"]
    common: Float[Array, "B G J L"]
    largest: Float[Array, "B G J L"]
    total: Float[Array, "B G J L"]


def no_keys(blocks: BlockSizes, queries: Float[Array, "B L G J K"]) -> Average:
    """Return the averages over no keys.

    Args:
      blocks: Sizes.
      queries: Queries of a block.
    """
    batch_size, length, num_groups, num_shared, _ = queries.shape
    rows = (batch_size, num_groups, num_shared, length)
    average = Average(jnp.full(rows, -jnp.inf), jnp.zeros(rows), jnp.zeros(queries.shape, jnp.float32))
    return jax.lax.pcast(average, blocks.varying_axes, to="varying")


def add_keys(
    blocks: BlockSizes,
    pairs: Pairs,
    average: Average,
    inputs: Inputs,
    mask_inputs: MaskInputs,
    starts: BlockOffsets,
) -> Average:
    """Return the averages over these keys, too.

    Args:
      blocks: Sizes.
      pairs: Pairs of query and key blocks that may see each other.
      average: Averages over the keys before.
      inputs: Queries, keys, values and what acts on their scores.
      mask_inputs: Inputs of the mask.
      starts: Positions of the first query and key.
    """
    if not pairs:
        return average

    def body(carry: Average, pair: Array) -> tuple[Average, None]:
        query, key = pair[0] * blocks.query_length, pair[1] * blocks.key_length
        query_block = partial(_cut, start=query, length=blocks.query_length)
        key_block, value_block = _at_keys(blocks, key, inputs)
        scores = _scores(blocks, query, key, mask_inputs, starts)(
            query_block(inputs.queries, 1), key_block, inputs.bias
        )
        largest, total, values = query_block(carry[0], 3), query_block(carry[1], 3), query_block(carry[2], 1)
        new_largest = jnp.maximum(largest, scores.max(-1))
        weights = jnp.exp(scores - new_largest[..., None])
        fading = jnp.exp(largest - new_largest)
        total = total * fading + weights.sum(-1)
        weights = _dropped(blocks, key, weights, mask_inputs, starts).astype(inputs.values.dtype)
        weighted = jnp.einsum("bgjlm,bmgk->blgjk", weights, value_block, preferred_element_type=jnp.float32)
        values = values * jnp.moveaxis(fading, 3, 1)[..., None] + weighted
        parts = (new_largest, 3), (total, 3), (values, 1)
        return Average(
            *(
                jax.lax.dynamic_update_slice_in_dim(whole, part, query, axis)
                for whole, (part, axis) in zip(carry, parts, strict=True)
            )
        ), None

    return jax.lax.scan(body, average, _as_array(pairs, inputs.queries))[0]


def no_gradients(blocks: BlockSizes, inputs: Tree) -> Tree:
    """Return zeros in float32, to which gradients are added.

    Args:
      blocks: Sizes.
      inputs: Arrays that have gradients.
    """
    zeros = jax.tree.map(lambda array: jnp.zeros(array.shape, jnp.float32), inputs)
    return jax.lax.pcast(zeros, blocks.varying_axes, to="varying")


def add_gradients(
    blocks: BlockSizes,
    pairs: Pairs,
    sums: Inputs,
    inputs: Inputs,
    outcome: SoftmaxResiduals,
    mask_inputs: MaskInputs,
    starts: BlockOffsets,
) -> Inputs:
    """Return the sums of gradients with those between these queries and keys.

    Args:
      blocks: Sizes.
      pairs: Pairs of query and key blocks that may see each other.
      sums: Sums of gradients before.
      inputs: Queries, keys, values and what acts on their scores.
      outcome: Values of the forward pass.
      mask_inputs: Inputs of the mask.
      starts: Positions of the first query and key.
    """
    if not pairs:
        return sums

    def body(sums: Inputs, pair: Array) -> tuple[Inputs, None]:
        query, key = pair[0] * blocks.query_length, pair[1] * blocks.key_length
        query_block = partial(_cut, start=query, length=blocks.query_length)
        key_block, value_block = _at_keys(blocks, key, inputs)
        scores, pull = jax.vjp(
            _scores(blocks, query, key, mask_inputs, starts),
            query_block(inputs.queries, 1),
            key_block,
            inputs.bias,
        )
        rows = query_block(outcome.largest, 3), query_block(outcome.total, 3), query_block(outcome.common, 3)
        row_largest, row_total, row_common = (each[..., None] for each in rows)
        weights = jnp.exp(scores - row_largest) / row_total
        out = query_block(outcome.gradient, 1)
        kept_weights = _dropped(blocks, key, weights, mask_inputs, starts).astype(inputs.values.dtype)
        by_weight = jnp.einsum("blgjk,bmgk->bgjlm", out, value_block, preferred_element_type=jnp.float32)
        by_score = weights * (_dropped(blocks, key, by_weight, mask_inputs, starts) - row_common)
        by_query, by_key, by_bias = pull(by_score)
        by_value = jnp.einsum("bgjlm,blgjk->bmgk", kept_weights, out, preferred_element_type=jnp.float32)
        return Inputs(
            queries=_add_at(sums.queries, by_query, query),
            keys=_add_at(sums.keys, by_key, key),
            values=_add_at(sums.values, by_value, key),
            bias=None if sums.bias is None else sums.bias + by_bias,
        ), None

    return jax.lax.scan(body, sums, _as_array(pairs, inputs.queries))[0]


def map_axes(
    mask: AttentionMask, of_queries: Callable[[Array, int], Array], of_keys: Callable[[Array, int], Array]
) -> AttentionMask:
    """Apply a function of an array and its axis to all axes of queries, and one to all axes of keys.

    Args:
      mask: Mask with its inputs.
      of_queries: Called with an array and the dimension of its queries.
      of_keys: Called with an array and the dimension of its keys.
    """

    def mapped(function: Callable[[Array, int], Array], array: Array | None, axis: int = 1) -> Array | None:
        return array if array is None or array.shape[axis] == 1 else function(array, axis)

    return mask._replace(
        query_segment_ids=mapped(of_queries, mask.query_segment_ids),
        key_segment_ids=mapped(of_keys, mask.key_segment_ids),
        query_ranks=mapped(of_queries, mask.query_ranks),
        key_ranks=mapped(of_keys, mask.key_ranks),
        prefix=mapped(of_keys, mask.prefix),
        allowed=mapped(of_keys, mapped(of_queries, mask.allowed, -2), -1),
    )


def scale_and_cap(scores: Float[Array, "..."], scale: float, soft_cap: float | None) -> Float[Array, "..."]:
    """Return ``scale * scores``, and with a cap ``soft_cap * tanh(scale * scores / soft_cap)``.

    Args:
      scores: Products of queries and keys.
      scale: Factor of the scores.
      soft_cap: Limit that the absolute value approaches; None for no limit.
    """
    if scale != 1.0:
        scores = scores * scale
    return scores if soft_cap is None else soft_cap * jnp.tanh(scores / soft_cap)


def _as_array(pairs: Pairs, queries: Array) -> Array:
    """Return the pairs as numbers that seem to depend on the queries.

    Masks depend on these numbers. JAX would otherwise take all masks of a stack's layers out of the scan over layers,
    and keep them.
    """
    return jax.lax.optimization_barrier((jnp.asarray(pairs), queries))[0]


def _scores(
    blocks: BlockSizes, query: Array, key: Array, mask_inputs: MaskInputs, starts: BlockOffsets
) -> Callable[[Array, Array, Array | None], Float[Array, "B G J L M"]]:
    """Return the function that scores the block of queries at ``query`` and keys at ``key``, masked."""

    def scores(queries: Array, keys: Array, bias: Array | None) -> Array:
        logits = jnp.einsum("blgjk,bmgk->bgjlm", queries, keys, preferred_element_type=jnp.float32)
        logits = scale_and_cap(logits, blocks.scale, blocks.soft_cap)
        if bias is not None:
            added = _bias(blocks, starts.query + query, starts.key + key, bias)
            logits = logits + added.reshape(1, *logits.shape[1:3], *added.shape[1:])
        mask = _mask(blocks, query, key, mask_inputs.mask, starts)
        logits = logits if mask is None else jnp.where(mask[:, :, None], logits, MASKED)
        if blocks.num_keys % blocks.key_length == 0:
            return logits
        # Padding of the last block has no weight, not even in a row where everything is masked.
        is_key = key + jnp.arange(blocks.key_length) < blocks.num_keys
        return jnp.where(is_key[None, None, None, None], logits, -jnp.inf)

    return scores


def _bias(blocks: BlockSizes, query: Array, key: Array, bias: Float[Array, "H R"]) -> Float[Array, "H L M"]:
    """Return the bias between blocks at places in the row, which depends on the distance alone."""
    num_distances = blocks.query_length + blocks.key_length - 1
    smallest = key - (query + blocks.query_length - 1)
    near = _cut(bias, 1, start=smallest + bias.shape[1] // 2, length=num_distances)
    rows = jnp.broadcast_to(near[None, :, None], (1, len(near), blocks.query_length, num_distances))
    return shift(rows, num_keys=blocks.key_length)[0]


def _mask(
    blocks: BlockSizes, query: Array, key: Array, mask: AttentionMask, starts: BlockOffsets
) -> Bool[Array, "..."] | None:
    """Return the mask between blocks."""
    of_queries = partial(_cut, start=query, length=blocks.query_length)
    of_keys = partial(_cut, start=starts.key + key, length=blocks.key_length)
    part = map_axes(mask, of_queries, of_keys)._replace(causal=blocks.causal, window=blocks.window)
    query_places = starts.query + query + jnp.arange(blocks.query_length)
    return part.between(query_places, starts.key + key + jnp.arange(blocks.key_length))


def _dropped(
    blocks: BlockSizes,
    key: Array,
    weights: Float[Array, "B G J L M"],
    mask_inputs: MaskInputs,
    starts: BlockOffsets,
) -> Array:
    """Apply dropout to weights, or to their gradients."""
    if mask_inputs.keep is None:
        return weights
    keep = _cut(mask_inputs.keep, 2, start=starts.key + key, length=blocks.key_length)
    return weights * keep.reshape(*weights.shape[:3], 1, -1)


def _at_keys(blocks: BlockSizes, key: Array, inputs: Inputs) -> list[Array]:
    return [_cut(array, 1, start=key, length=blocks.key_length) for array in (inputs.keys, inputs.values)]


def _cut(array: Array, axis: int = 1, *, start: Array, length: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(array, start, length, axis)


def _add_at(whole: Array, part: Array, start: Array) -> Array:
    before = _cut(whole, start=start, length=part.shape[1])
    return jax.lax.dynamic_update_slice_in_dim(whole, before + part.astype(whole.dtype), start, axis=1)
