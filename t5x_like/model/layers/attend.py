"""Weighted averages of values: from queries and keys to what heads read, whatever made them and computes it."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from t5x_like.model import named_activations
from t5x_like.model.layers.attention_blocks import scale_and_cap
from t5x_like.model.layers.attention_implementations import (
    IN_BLOCKS,
    AttentionImplementation,
    AttentionShape,
    check_cudnn,
    check_pallas,
)
from t5x_like.model.layers.blockwise_attention import blockwise_attention
from t5x_like.model.layers.cudnn_attention import cudnn_attention
from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.masks import MASKED, AttentionMask, as_array, as_mask
from t5x_like.model.layers.pallas_attention import pallas_attention
from t5x_like.model.layers.positions import DistanceBias
from t5x_like.partitioning.activations import constrain_inner


class KeysValues(NamedTuple):
    """Keys and values that queries attend to."""

    keys: Float[Array, "B M G K"]
    values: Float[Array, "B M G KV"]


def attend(
    queries: Float[Array, "B L H K"],
    keys_values: KeysValues,
    *,
    scale: float,
    soft_cap: float | None,
    shape: AttentionShape,
    prefix: KeysValues | None = None,
    mask: AttentionMask | Bool[Array, "..."] | None = None,
    bias: DistanceBias | Float[Array, "..."] | None = None,
    dropout_rate: float = 0.0,
    dropout_key: Key[Array, ""] | None = None,
    implementation: AttentionImplementation = "plain",
) -> Float[Array, "B L HKV"]:
    """Return each query's weighted averages of values, heads concatenated.

    Args:
      queries: Rotated queries.
      keys_values: Rotated keys, and values, which may be of another width.
      scale: Factor of scores.
      soft_cap: Limit of scores; ``None`` for none.
      shape: What decides whether the implementation computes this attention.
      prefix: Keys and values before all others, which all queries see.
      mask: ``False`` prevents attention; broadcasts to [B, 1, L, M].
      bias: Added to scores; see ``Attention``.
      dropout_rate: Dropout of attention weights.
      dropout_key: ``None`` for no dropout.
      implementation: Computation of the weighted averages.
    """
    dtype, num_rows, length = queries.dtype, *queries.shape[:2]
    num_keys, value_dim = keys_values.keys.shape[1], keys_values.values.shape[-1]
    if implementation != "plain":
        queries, keys_values = _of_one_width(queries, keys_values)
    if implementation in IN_BLOCKS:
        if implementation == "pallas":
            check_pallas(shape)
        in_blocks = pallas_attention if implementation == "pallas" else blockwise_attention
        averages = _attend_in_blocks(
            in_blocks,
            queries,
            keys_values,
            prefix,
            mask,
            bias,
            (dropout_rate, dropout_key),
            scale=scale,
            soft_cap=soft_cap,
        )
        return averages[..., :value_dim].reshape(num_rows, length, -1)
    assert not isinstance(bias, DistanceBias), "an array is needed where attention is not blockwise"
    visible: AttentionMask | Array | None = mask
    if implementation == "plain" or prefix is not None:
        visible = as_array(mask, num_queries=length, num_keys=num_keys)
        keys_values, visible, bias = _with_prefix(prefix, keys_values, visible, bias)
    if implementation == "cudnn":
        check_cudnn(shape)
        keys, values = (each.astype(dtype) for each in keys_values)
        averages = cudnn_attention(queries, keys, values, mask=visible, bias=bias, scale=scale)
        return averages[..., :value_dim].reshape(num_rows, length, -1)
    scores_BHLM = scaled_scores(queries, keys_values.keys.astype(dtype), scale, soft_cap)
    if bias is not None:
        scores_BHLM = scores_BHLM + bias
    if visible is not None:
        assert not isinstance(visible, AttentionMask), "plain attention has made an array of it"
        scores_BHLM = jnp.where(visible, scores_BHLM, MASKED)
    weights_BHLM = jax.nn.softmax(scores_BHLM, axis=-1).astype(dtype)
    weights_BHLM = named_activations.observe("probabilities", weights_BHLM)
    weights_BHLM = dropout(weights_BHLM, dropout_rate, dropout_key, shared_dim=2)
    return average_values(weights_BHLM, keys_values.values.astype(dtype))


def scaled_scores(
    queries: Float[Array, "B L H K"], keys: Float[Array, "B M G K"], scale: float, soft_cap: float | None
) -> Float[Array, "B H L M"]:
    """Return scaled and capped scores in float32.

    Args:
      queries: Rotated queries.
      keys: Rotated keys, which several heads may share.
      scale: Factor of scores.
      soft_cap: Limit of scores; ``None`` for none.
    """
    # Heads that share a key lie next to each other: J of them in each of the G groups.
    queries_BLGJK = queries.reshape(*queries.shape[:2], keys.shape[2], -1, queries.shape[-1])
    scores_BGJLM = jnp.einsum(
        "bgjlk,bmgk->bgjlm",
        queries_BLGJK.transpose(0, 2, 3, 1, 4),
        keys,
        preferred_element_type=jnp.float32,
    )
    scores_BHLM = scores_BGJLM.reshape(scores_BGJLM.shape[0], -1, *scores_BGJLM.shape[3:])
    return scale_and_cap(scores_BHLM, scale, soft_cap)


def average_values(
    weights: Float[Array, "B H L M"], values: Float[Array, "B M G KV"]
) -> Float[Array, "B L HKV"]:
    """Return each head's weighted average of values, heads concatenated.

    Args:
      weights: Weights after the softmax.
      values: Values, which several heads may share.
    """
    weights_BGJLM = weights.reshape(weights.shape[0], values.shape[2], -1, *weights.shape[2:])
    averages_BGJLK = jnp.einsum("bgjlm,bmgk->bgjlk", weights_BGJLM, values)
    averages_BLGJK = averages_BGJLK.transpose(0, 3, 1, 2, 4)
    return constrain_inner(averages_BLGJK.reshape(*averages_BLGJK.shape[:2], -1), -1)


def _attend_in_blocks(
    in_blocks: Callable[..., Array],
    queries: Float[Array, "B L H K"],
    keys_values: KeysValues,
    prefix: KeysValues | None,
    mask: AttentionMask | Array | None,
    bias: DistanceBias | Array | None,
    dropping: tuple[float, Array | None],
    **scaling: float | None,
) -> Float[Array, "B L H K"]:
    """Attend by ``in_blocks``, without an array of all scores; other arguments are those of ``attend``."""
    assert bias is None or isinstance(bias, DistanceBias), "blocks need a bias by distance"
    if prefix is not None:
        keys_values = _joined(prefix, keys_values)
    keys, values = (each.astype(queries.dtype) for each in keys_values)
    keep = None
    if dropping[1] is not None and dropping[0]:
        kept = jnp.ones((len(queries), queries.shape[2], 1, keys.shape[1]), queries.dtype)
        keep = dropout(kept, *dropping)[:, :, 0]
    return in_blocks(
        queries,
        keys,
        values,
        mask=as_mask(mask),
        bias=bias,
        keep=keep,
        num_prefix=0 if prefix is None else prefix.keys.shape[1],
        **scaling,
    )


def _of_one_width(queries: Array, keys_values: KeysValues) -> tuple[Array, KeysValues]:
    """Fill up queries, keys and values with zeros to the widest of them, as kernels need them."""
    arrays = queries, *keys_values
    width = max(array.shape[-1] for array in arrays)
    if all(array.shape[-1] == width for array in arrays):
        return queries, keys_values
    queries, keys, values = (
        jnp.pad(array, ((0, 0),) * 3 + ((0, width - array.shape[-1]),)) for array in arrays
    )
    return queries, KeysValues(keys, values)


def _with_prefix(
    prefix: KeysValues | None, keys_values: KeysValues, mask: Array | None, bias: Array | None
) -> tuple[KeysValues, Array | None, Array | None]:
    """Put a prefix before keys and values, visible to all queries, without bias."""
    if prefix is None:
        return keys_values, mask, bias
    length, num_keys = prefix.keys.shape[1], keys_values.keys.shape[1]

    def extended(rows: Array | None, value: bool | float) -> Array | None:
        if rows is None:
            return None
        rows = jnp.broadcast_to(rows, (*rows.shape[:-1], num_keys))
        return jnp.pad(rows, ((0, 0),) * (rows.ndim - 1) + ((length, 0),), constant_values=value)

    return _joined(prefix, keys_values), extended(mask, True), extended(bias, 0.0)


def _joined(prefix: KeysValues, others: KeysValues) -> KeysValues:
    """Put a prefix before other keys and values."""
    pairs = zip(prefix, others, strict=True)
    return KeysValues(*(jnp.concatenate([first.astype(then.dtype), then], axis=1) for first, then in pairs))
