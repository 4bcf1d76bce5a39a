"""Attention in blocks of queries and keys, whose memory grows linearly with the length.

Where a mesh splits rows along ``context``, each device attends from its part of the queries, as a ring.

Shape letters here: P keys of a learned prefix; R distances.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

from t5x_like.model.layers.attention_blocks import BlockSizes, Inputs, MaskInputs, map_axes
from t5x_like.model.layers.attention_ring import KeysOfPart, Ring, RingConstants, attend, steps_of_ring
from t5x_like.model.layers.masks import AttentionMask
from t5x_like.model.layers.positions import DistanceBias
from t5x_like.partitioning.activations import divides_heads, num_context_parts
from t5x_like.partitioning.rules import BATCH_MESH_AXES, CONTEXT_MESH_AXIS

# Longest block of queries and of keys.
BLOCK_LENGTH = 512

_NO_FLAGS = {"causal": None, "window": None}  # as arrays they couldn't be known when compiled


class _Arrays(NamedTuple):
    """Arrays of an attention, or their partition specs.

    Attributes:
      queries: Queries.
      keys: Keys after the prefix.
      values: Values of these keys.
      bias: Bias of each head by distance.
      prefix: Keys and values of the prefix.
      mask: Mask without its flags.
      keep: Factor of each weight of the keys after the prefix.
      prefix_keep: Factor of each weight of the prefix.
    """

    queries: Float[Array, "B L H K"]
    keys: Float[Array, "B M G K"]
    values: Float[Array, "B M G K"]
    bias: Float[Array, "H R"] | None
    prefix: KeysOfPart | None
    mask: AttentionMask
    keep: Float[Array, "B H M"] | None
    prefix_keep: Float[Array, "B H P"] | None


def blockwise_attention(
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
    """Return each query's weighted average of values.

    Args:
      queries: Queries, whose places count from 0.
      keys: Keys of the prefix, then others, whose places count from 0.
      values: Values of the keys.
      mask: Mask between queries and the keys after the prefix.
      bias: Added to scores of the keys after the prefix.
      keep: Factor of each weight after the softmax, for dropout.
      num_prefix: Number of keys of the prefix, which are visible to all queries.
      scale: Multiplies scores.
      soft_cap: See ``scale_and_cap``.
    """
    arrays = _Arrays(
        queries=queries,
        keys=keys[:, num_prefix:],
        values=values[:, num_prefix:],
        bias=None if bias is None else bias.values,
        prefix=KeysOfPart(keys[:, :num_prefix], values[:, :num_prefix]) if num_prefix else None,
        mask=mask._replace(**_NO_FLAGS),
        keep=None if keep is None else keep[:, :, num_prefix:],
        prefix_keep=None if keep is None or not num_prefix else keep[:, :, :num_prefix],
    )
    size = num_context_parts(len(queries), queries.shape[1], arrays.keys.shape[1])

    def attend_to_all(
        own: int | Int[Array, ""], arrays: _Arrays, axes: tuple[str, ...]
    ) -> Float[Array, "B L H K"]:
        whole_mask = arrays.mask._replace(causal=mask.causal, window=mask.window)
        arrays = arrays._replace(mask=whole_mask)
        return _attend(arrays, size=size, own=own, axes=axes, scale=scale, soft_cap=soft_cap)

    # Left to itself the compiler may exchange heads in each step of the loops over blocks.
    heads = "model" if divides_heads(len(queries), keys.shape[2]) else None
    if size == 1 and (heads is None or jax.sharding.get_abstract_mesh().shape[CONTEXT_MESH_AXIS] > 1):
        return attend_to_all(0, arrays, ())
    axes = (*BATCH_MESH_AXES, CONTEXT_MESH_AXIS, *([heads] if heads else []))
    specs = _specs(arrays, heads)

    def vary(spec: PartitionSpec, arrays: PyTree) -> PyTree:
        # The gradient of what devices share is summed over them once, at the transpose of this line.
        missing = tuple(axis for axis in axes if axis not in jax.tree.leaves(tuple(spec)))
        return jax.lax.pcast(arrays, missing, to="varying")

    def on_own_part(own: Array, arrays: _Arrays) -> Array:
        arrays = jax.tree.map(vary, specs, arrays)
        return attend_to_all(own[0], arrays, axes)

    return jax.shard_map(
        on_own_part,
        in_specs=(PartitionSpec(CONTEXT_MESH_AXIS), specs),
        out_specs=specs.queries,
        axis_names=set(axes),
    )(jnp.arange(size), arrays)


def _specs(arrays: _Arrays, heads: str | None) -> Any:
    """Return partition specs: queries, keys and values are split by length; masks and dropout by queries only.

    Args:
      arrays: Whole arrays.
      heads: Mesh axis that splits heads; ``None`` leaves them to the compiler.
    """
    rows, tokens = PartitionSpec(BATCH_MESH_AXES), PartitionSpec(BATCH_MESH_AXES, CONTEXT_MESH_AXIS)
    allowed, of_allowed = arrays.mask.allowed, rows
    if allowed is not None:
        axes = (BATCH_MESH_AXES, heads, CONTEXT_MESH_AXIS, None)
        of_allowed = PartitionSpec(
            *(axis if size > 1 else None for axis, size in zip(axes, allowed.shape, strict=True))
        )
    of_mask = {"query_segment_ids": tokens, "query_ranks": tokens, "allowed": of_allowed}
    of_heads = PartitionSpec(*tokens, heads)
    specs: dict[str, Any] = {
        "queries": of_heads,
        "keys": of_heads,
        "values": of_heads,
        "bias": PartitionSpec(heads),
        "prefix": PartitionSpec(BATCH_MESH_AXES, None, heads),
        "mask": AttentionMask(**{name: of_mask.get(name, rows) for name in AttentionMask._fields}),  # pyright: ignore[reportArgumentType]
        "keep": PartitionSpec(BATCH_MESH_AXES, heads),
        "prefix_keep": PartitionSpec(BATCH_MESH_AXES, heads),
    }
    return _Arrays(**specs)


def _attend(
    arrays: _Arrays,
    *,
    size: int,
    own: int | Int[Array, ""],
    axes: tuple[str, ...],
    scale: float,
    soft_cap: float | None,
) -> Float[Array, "B L H K"]:
    """Attend from a device's queries to the keys of all devices.

    Args:
      arrays: Queries, keys and values of this device; what belongs to keys in a mask is of all devices.
      size: Number of devices.
      own: Number of this device.
      axes: See ``BlockSizes.varying_axes``.
      scale: Multiplies scores.
      soft_cap: See ``scale_and_cap``.
    """
    queries, mask, prefix = arrays.queries, arrays.mask, arrays.prefix
    (num_rows, length, num_heads, head_dim), (_, num_keys, num_groups, _) = queries.shape, arrays.keys.shape
    blocks = BlockSizes(
        query_length=min(BLOCK_LENGTH, length),
        key_length=min(BLOCK_LENGTH, num_keys),
        num_keys=num_keys,
        causal=mask.causal,
        window=mask.window,
        scale=scale,
        soft_cap=soft_cap,
        varying_axes=axes,
    )
    of_prefix = None
    if prefix is not None:
        num_prefix = prefix.keys.shape[1]
        of_prefix = replace(blocks, key_length=num_prefix, num_keys=num_prefix, causal=False, window=None)
    ring = Ring(
        size=size,
        num_queries=length,
        blocks=blocks,
        ring_steps=steps_of_ring(mask, size, num_queries=length, num_keys=num_keys, blocks=blocks),
        prefix=of_prefix,
    )
    padded_length = length + -length % blocks.query_length
    padded_keys = num_keys + -num_keys % blocks.key_length

    def pad_queries(array: Array, axis: int = 1) -> Array:
        return _padded(array, axis, padded_length)

    def pad_all_keys(array: Array, axis: int = 1) -> Array:
        return _padded(array, axis, (size - 1) * num_keys + padded_keys)

    others = RingConstants(
        MaskInputs(
            mask=map_axes(mask, pad_queries, pad_all_keys)._replace(**_NO_FLAGS),
            keep=None if arrays.keep is None else pad_all_keys(arrays.keep, 2),
        ),
        MaskInputs(mask=AttentionMask()._replace(**_NO_FLAGS), keep=arrays.prefix_keep),
        own,
    )
    margin = blocks.query_length + blocks.key_length  # of places that are padding
    inputs = Inputs(
        queries=pad_queries(queries).reshape(num_rows, -1, num_groups, num_heads // num_groups, head_dim),
        keys=_padded(arrays.keys, 1, padded_keys),
        values=_padded(arrays.values, 1, padded_keys),
        bias=None if arrays.bias is None else jnp.pad(arrays.bias, ((0, 0), (margin, margin))),
    )
    averages: Array = attend(ring, inputs, prefix, others)
    return averages.reshape(num_rows, -1, num_heads, head_dim)[:, :length]


def _padded(array: Array, axis: int, length: int) -> Array:
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, length - array.shape[axis])
    return jnp.pad(array, widths)
