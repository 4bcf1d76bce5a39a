"""Blocks that see a memory of earlier segments, run by one scan (Dai et al. 2019), with one stream or two.

Two streams are XLNet's (Yang et al. 2019, https://arxiv.org/abs/1906.08237, §2.3): ``content`` knows the token at
its place, ``queries`` know only the place. Both look at the content stream, through the same weights.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from t5x_like.model.layers.dropout import dropout, fold
from t5x_like.model.layers.feed_forward import FeedForward, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.relative_attention import (
    RelativeAttention,
    RelativeAttentionConfig,
    RelativeKeysValues,
)
from t5x_like.model.layers.residual import NormSlot, Residual
from t5x_like.model.layers.stack import Remat
from t5x_like.partitioning.shard import constrain_rows

_KEPT = {
    "minimal": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "full": jax.checkpoint_policies.nothing_saveable,
}


@dataclass(frozen=True, kw_only=True)
class RelativeStackConfig:
    """``num_layers`` equal blocks; distances beyond ``max_distance`` count as it."""

    model_dim: int
    num_layers: int
    attention: RelativeAttentionConfig
    feed_forward: FeedForwardConfig
    norm: NormConfig
    init: Normal
    norm_slots: tuple[NormSlot, ...] = ("final",)
    max_distance: int | None = None
    dropout_rate: float = 0.0
    attention_dropout_rate: float = 0.0
    remat: Remat = "none"


class Streams(NamedTuple):
    """``queries`` are at every position, or at the targets of a ``target_mapping``."""

    content: Float[Array, "B L D"]
    queries: Float[Array, "B T D"] | None = None


class RelativeAttentionContext(NamedTuple):
    """Inputs that all blocks share. Masks broadcast to [B, H, L, M]; ``zero_fully_masked``: see the attention."""

    distances: Float[Array, "R D"]  # encoded
    mask: Bool[Array, "..."] | None = None
    query_mask: Bool[Array, "..."] | None = None
    is_other_segment: Bool[Array, "B L M"] | None = None
    target_mapping: Float[Array, "B T L"] | None = None  # the place of each query, one-hot
    zero_fully_masked: bool = False


class RelativeStackOutput(NamedTuple):
    """``inputs`` of every block, if collected: what the memory is made of."""

    streams: Streams
    inputs: Streams | None  # each array with a leading axis of layers


class RelativeBlock(nnx.Module):
    """Attention and feed-forward, alike for both streams."""

    def __init__(self, config: RelativeStackConfig, *, key: Key[Array, ""]):
        attention_key, feed_forward_key = jax.random.split(key)
        dim, init = config.model_dim, config.init
        self.attention = RelativeAttention(config.attention, dim, key=attention_key, init=init)
        self.feed_forward = FeedForward(config.feed_forward, dim, key=feed_forward_key, init=init)
        self.around_attention = Residual(config.norm, dim, norm_slots=config.norm_slots)
        self.around_feed_forward = Residual(config.norm, dim, norm_slots=config.norm_slots)
        self.config = config

    def __call__(
        self,
        streams: Streams,
        memory: Float[Array, "B P D"] | None,
        context: RelativeAttentionContext,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Streams:
        """Renews both streams from what the content stream was before."""
        content, queries = streams
        seen = content if memory is None else jnp.concatenate([memory.astype(content.dtype), content], axis=1)
        before = self.around_attention.before
        relative_keys_values = self.attention.project_keys_values(
            seen if before is None else before(seen), context.distances
        )
        content = self._renew(
            content, relative_keys_values, context._replace(target_mapping=None), fold(dropout_key, 0)
        )
        if queries is not None:
            context = context._replace(mask=context.query_mask)
            queries = self._renew(queries, relative_keys_values, context, fold(dropout_key, 1))
        return Streams(content, queries)

    def _renew(
        self,
        stream: Float[Array, "B T D"],
        relative_keys_values: RelativeKeysValues,
        context: RelativeAttentionContext,
        dropout_key: Key[Array, ""] | None,
    ) -> Float[Array, "B T D"]:
        mapping, rate = context.target_mapping, self.config.dropout_rate

        def look(x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
            x = x if mapping is None else jnp.einsum("btl,btd->bld", mapping.astype(x.dtype), x)
            found = self.attention(
                x,
                relative_keys_values,
                mask=context.mask,
                is_other_segment=context.is_other_segment,
                zero_fully_masked=context.zero_fully_masked,
                dropout_rate=self.config.attention_dropout_rate,
                dropout_key=fold(dropout_key, 0),
            )
            return found if mapping is None else jnp.einsum("btl,bld->btd", mapping.astype(x.dtype), found)

        def widen(x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
            return self.feed_forward(x, dropout_rate=rate, dropout_key=fold(dropout_key, 1))

        stream = self.around_attention(stream, look, dropout_rate=rate, dropout_key=fold(dropout_key, 2))
        return self.around_feed_forward(stream, widen, dropout_rate=rate, dropout_key=fold(dropout_key, 3))


class RelativeStack(nnx.Module):
    """The blocks, their weights stacked along a leading axis, with dropout at both ends."""

    def __init__(self, config: RelativeStackConfig, *, key: Key[Array, ""]):
        keys = jax.random.split(key, config.num_layers)
        self.layers = jax.vmap(lambda key: RelativeBlock(config, key=key))(keys)
        self.config = config

    def __call__(
        self,
        streams: Streams,
        memory: Float[Array, "N B P D"] | None,
        context: RelativeAttentionContext,
        *,
        dropout_key: Key[Array, ""] | None = None,
        collect_inputs: bool = False,
    ) -> RelativeStackOutput:
        """``memory`` holds what entered each block in earlier segments."""
        rate, layers_key = self.config.dropout_rate, fold(dropout_key, 0)
        keys = None if layers_key is None else jax.random.split(layers_key, self.config.num_layers)

        def drop(streams: Streams, site: int) -> Streams:
            content, queries = streams
            content = dropout(content, rate, fold(dropout_key, site), shared_dim=1)
            if queries is not None:
                queries = dropout(queries, rate, fold(dropout_key, site + 1), shared_dim=1)
            return Streams(content, queries)

        distances = dropout(context.distances, rate, fold(dropout_key, 5))
        context = context._replace(distances=distances)

        def body(
            streams: Streams, layer: tuple[RelativeBlock, Array | None, Array | None]
        ) -> tuple[Streams, Streams | None]:
            block, memory, key = layer
            streams = jax.tree.map(constrain_rows, streams)
            return block(streams, memory, context, dropout_key=key), streams if collect_inputs else None

        if self.config.remat != "none":
            body = jax.checkpoint(body, policy=_KEPT[self.config.remat])
        streams, inputs = jax.lax.scan(body, drop(streams, 1), (self.layers, memory, keys))
        return RelativeStackOutput(drop(streams, 3), inputs)


def remember(
    memory: Float[Array, "N B P D"] | None, inputs: Float[Array, "N B L D"], *, length: int | None
) -> Float[Array, "N B Q D"]:
    """The last ``length`` of what entered each block; gradients stop here (Dai et al. 2019, §3.2)."""
    if memory is not None:
        inputs = jnp.concatenate([memory.astype(inputs.dtype), inputs], axis=2)
    start = 0 if length is None else max(0, inputs.shape[2] - length)
    return jax.lax.stop_gradient(inputs[:, :, start:])
