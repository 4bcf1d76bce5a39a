"""Attention by cuDNN's fused kernels, for NVIDIA GPUs; scores never leave the chip."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from t5x_like.model.layers.masks import AttentionMask, as_array, segment_mask
from t5x_like.partitioning.activations import HEADS, ROWS, map_heads, num_parts_of_heads

# The forward kernel's name in a traced program, for what remat keeps.
FORWARD_PRIMITIVE = "dot_product_attention_fwd_wrapper"


def cudnn_attention(
    queries: Float[Array, "B L H K"],
    keys: Float[Array, "B M G K"],
    values: Float[Array, "B M G K"],
    *,
    mask: AttentionMask | Bool[Array, "..."] | None,
    bias: Float[Array, "..."] | None,
    scale: float,
) -> Float[Array, "B L H K"]:
    """Return weighted averages of values.

    Kernels skip what a causal mask or a window hides. Other masks are read as an array of queries and keys. Rows with
    one example and padding after it need none: their lengths are enough. Which rows a batch has is found out while
    it is computed.

    Args:
      queries: Queries, in bfloat16 or float16.
      keys: Keys, each shared by ``H / G`` heads.
      values: Values.
      mask: Visible keys.
      bias: Added to scores; broadcasts to [B, H, L, M].
      scale: Multiplies scores.
    """
    attend = partial(
        _attend, queries, keys, values, None if bias is None else bias.astype(queries.dtype), scale=scale
    )
    if not isinstance(mask, AttentionMask):
        return attend(mask=mask)
    mask, kernel_masks = _split(mask)
    attend = partial(attend, **kernel_masks)
    of_queries, of_keys = mask.query_segment_ids, mask.key_segment_ids
    others = mask._replace(query_segment_ids=None, key_segment_ids=None)
    if of_keys is None or any(condition is not None and condition is not False for condition in others):
        visible = as_array(mask, num_queries=queries.shape[1], num_keys=keys.shape[1])
        return attend(mask=visible)

    def by_lengths() -> Array:
        # Keys of rows that are all padding: an average over none would not be a number.
        lengths = jnp.maximum(jnp.sum(of_keys > 0, axis=1, dtype=jnp.int32), 1)
        return attend(key_value_seq_lengths=lengths)

    @jax.checkpoint  # the array isn't kept
    def by_array() -> Array:
        return attend(mask=segment_mask(of_queries, of_keys))

    return jax.lax.cond(has_one_example(of_queries, of_keys), by_lengths, by_array)


def _attend(
    queries: Array,
    keys: Array,
    values: Array,
    bias: Array | None,
    *,
    mask: Array | None = None,
    key_value_seq_lengths: Array | None = None,
    **options: Any,
) -> Array:
    """Attend on every device for its own rows and heads; options are those of ``jax.nn.dot_product_attention``.

    Left to the compiler, each device computes attention of all rows where the backward pass computes it again. With
    remat ``full`` T5 1.1 large on 8 GPUs had 1.4 times the FLOPs, and gathered 9 times the bytes (JAX 0.10.2).
    """

    def attend(
        queries: Array,
        keys: Array,
        values: Array,
        bias: Array | None,
        mask: Array | None,
        lengths: Array | None,
    ) -> Array:
        return jax.nn.dot_product_attention(
            queries,
            keys,
            values,
            bias=bias,
            mask=mask,
            key_value_seq_lengths=lengths,
            implementation="cudnn",
            **options,
        )

    copies = math.lcm(keys.shape[2], num_parts_of_heads(queries.shape[2])) // keys.shape[2]
    if copies > 1:  # groups that can't be split over devices as heads are
        keys, values = (jnp.repeat(each, copies, axis=2) for each in (keys, values))

    def dims(array: Array | None) -> Any:
        """Return the dimensions of an array that broadcasts to [B, H, L, M]."""
        if array is None:
            return None
        return PartitionSpec(
            *(dim if size > 1 else None for dim, size in zip((ROWS, HEADS), array.shape[:2], strict=True))
        )

    of_tokens = PartitionSpec(ROWS, None, HEADS)
    of_lengths = None if key_value_seq_lengths is None else PartitionSpec(ROWS)
    return map_heads(
        attend,
        (queries, keys, values, bias, mask, key_value_seq_lengths),
        (of_tokens, of_tokens, of_tokens, dims(bias), dims(mask), of_lengths),
        of_tokens,
        sizes=(len(queries), queries.shape[2]),
    )


def has_one_example(
    query_segment_ids: Int[Array, "B L"] | None, key_segment_ids: Int[Array, "B M"]
) -> Bool[Array, ""]:
    """Return True if every row is one example with padding at most at its end.

    Args:
      query_segment_ids: Segment ids of the queries; ``None`` if they have no padding and see all real keys.
      key_segment_ids: Segment ids of the keys.
    """
    first = key_segment_ids[:, :1]
    ends = jnp.all(key_segment_ids[:, 1:] <= key_segment_ids[:, :-1]) & _all_of(key_segment_ids, first)
    return ends if query_segment_ids is None else ends & _all_of(query_segment_ids, first)


def _all_of(segment_ids: Int[Array, "B L"], example: Int[Array, "B 1"]) -> Bool[Array, ""]:
    return jnp.all((segment_ids == example) | (segment_ids == 0))


def _split(mask: AttentionMask) -> tuple[AttentionMask, dict[str, Any]]:
    """Return the mask without what kernels apply themselves, and their arguments for it."""
    if not mask.causal or mask.query_ranks is not None or mask.prefix is not None:
        return mask, {}
    rest = mask._replace(causal=False, window=None)
    if mask.window is None:
        return rest, {"is_causal": True}
    return rest, {"is_causal": True, "local_window_size": (mask.window.left, 0)}
