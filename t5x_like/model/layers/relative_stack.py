"""Stack of blocks with relative attention and a memory of earlier segments (Dai et al. 2019), on one stream or two.

Two streams are XLNet's (Yang et al. 2019, https://arxiv.org/abs/1906.08237, §2.3). The content stream contains the
token at its position, the query stream only the position. Both attend to the content stream, with the same weights.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.layers.dropout import dropout, fold
from t5x_like.model.layers.feed_forward import FeedForward, FeedForwardConfig
from t5x_like.model.layers.layer_scan import LayerLoop, scan_layers
from t5x_like.model.layers.linear import Normal, set_adapter_keys
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.relative_attention import (
    RelativeAttention,
    RelativeAttentionConfig,
    RelativeKeysValues,
)
from t5x_like.model.layers.remat import Remat, with_remat
from t5x_like.model.layers.residual import NormSlot, Residual
from t5x_like.partitioning.activations import constrain_tokens


@config_class
class RelativeStackConfig:
    """Configuration of a stack of equal blocks.

    Attributes:
      model_dim: Width of the residual stream.
      num_layers: Number of blocks.
      attention: Attention of each block.
      feed_forward: Feed-forward layer of each block.
      norm: Type of all norms.
      init: Distribution of fresh weights.
      norm_slots: Positions of norms around each layer (see ``Residual``).
      max_distance: Larger distances count as this one; ``None`` for no limit.
      dropout_rate: Dropout of inputs, layer outputs and inner feed-forward activations.
      attention_dropout_rate: Dropout of attention weights.
      remat: Values that the backward pass computes again, to save memory.
      scan_layers: Layers run in a loop; ``False`` writes one after another into a longer program.
    """

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
    scan_layers: LayerLoop = "auto"


class Streams(NamedTuple):
    """Residual streams.

    Attributes:
      content: Stream of the tokens.
      queries: Stream of queries, one for each position or for each row of a ``target_mapping``; ``None`` for none.
    """

    content: Float[Array, "B L D"]
    queries: Float[Array, "B T D"] | None = None


class RelativeAttentionContext(NamedTuple):
    """Inputs that all blocks share. Masks broadcast to [B, H, L, M].

    Attributes:
      distances: Encoded distances.
      mask: Mask of the content stream.
      query_mask: Mask of the query stream.
      is_other_segment: True where query and key belong to different text segments.
      target_mapping: One-hot position of each query.
      zero_fully_masked: See ``RelativeAttention``.
    """

    distances: Float[Array, "R D"]
    mask: Bool[Array, "..."] | None = None
    query_mask: Bool[Array, "..."] | None = None
    is_other_segment: Bool[Array, "B L M"] | None = None
    target_mapping: Float[Array, "B T L"] | None = None
    zero_fully_masked: bool = False


class RelativeStackOutput(NamedTuple):
    """Outputs of a stack.

    Attributes:
      streams: Outputs of the last block.
      inputs: If collected, inputs of every block, with a leading layers axis. The memory is made of them.
    """

    streams: Streams
    inputs: Streams | None


class RelativeBlock(nnx.Module):
    """Attention and feed-forward layer, the same for both streams."""

    def __init__(self, config: RelativeStackConfig, *, key: Key[Array, ""]):
        attention_key, feed_forward_key = jax.random.split(key)
        dim, init = config.model_dim, config.init
        self.attention = RelativeAttention(config.attention, dim, key=attention_key, init=init)
        self.feed_forward = FeedForward(config.feed_forward, dim, key=feed_forward_key, init=init)
        self.attention_residual = Residual(config.norm, dim, norm_slots=config.norm_slots)
        self.feed_forward_residual = Residual(config.norm, dim, norm_slots=config.norm_slots)
        self.config = config

    def __call__(
        self,
        streams: Streams,
        memory: Float[Array, "B P D"] | None,
        context: RelativeAttentionContext,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Streams:
        """Run the block. Both streams attend to the content stream as it was before.

        Args:
          streams: Inputs.
          memory: Inputs of this block at earlier positions.
          context: Distances and masks.
          dropout_key: ``None`` for no dropout.
        """
        content, queries = streams
        seen = content if memory is None else jnp.concatenate([memory.astype(content.dtype), content], axis=1)
        before = self.attention_residual.before
        relative_keys_values = self.attention.project_keys_values(
            seen if before is None else before(seen), context.distances
        )
        content = self._update(
            content, relative_keys_values, context._replace(target_mapping=None), fold(dropout_key, 0)
        )
        if queries is not None:
            context = context._replace(mask=context.query_mask)
            with named_activations.scope("queries"):
                queries = self._update(queries, relative_keys_values, context, fold(dropout_key, 1))
        return Streams(content, queries)

    def _update(
        self,
        stream: Float[Array, "B T D"],
        relative_keys_values: RelativeKeysValues,
        context: RelativeAttentionContext,
        dropout_key: Key[Array, ""] | None,
    ) -> Float[Array, "B T D"]:
        mapping, rate = context.target_mapping, self.config.dropout_rate

        def attend(x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
            x = x if mapping is None else jnp.einsum("btl,btd->bld", mapping.astype(x.dtype), x)
            with named_activations.scope("self_attention"):
                output = self.attention(
                    x,
                    relative_keys_values,
                    mask=context.mask,
                    is_other_segment=context.is_other_segment,
                    zero_fully_masked=context.zero_fully_masked,
                    dropout_rate=self.config.attention_dropout_rate,
                    dropout_key=fold(dropout_key, 0),
                )
            return output if mapping is None else jnp.einsum("btl,bld->btd", mapping.astype(x.dtype), output)

        def feed(x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
            with named_activations.scope("feed_forward"):
                return self.feed_forward(x, dropout_rate=rate, dropout_key=fold(dropout_key, 1))

        stream = self.attention_residual(stream, attend, dropout_rate=rate, dropout_key=fold(dropout_key, 2))
        return self.feed_forward_residual(stream, feed, dropout_rate=rate, dropout_key=fold(dropout_key, 3))


class RelativeStack(nnx.Module):
    """Equal blocks with stacked weights, and dropout of the stack's inputs and outputs."""

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
        """Run one segment.

        Args:
          streams: Inputs of the first block.
          memory: Inputs of each block in earlier segments.
          context: Distances and masks.
          dropout_key: ``None`` for no dropout.
          collect_inputs: Return the inputs of every block.
        """
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

        num_layers = self.config.num_layers

        def body(
            streams: Streams, layer: tuple[RelativeBlock, Array | None, Array | None, Array | None]
        ) -> tuple[Streams, tuple[Streams | None, dict[str, Array]]]:
            block, memory, key, layer_index = layer
            set_adapter_keys(block, key)
            with named_activations.layer(
                0 if layer_index is None else layer_index, num_layers
            ) as activations:
                streams = _observe(streams, lambda x: named_activations.observe("hidden_states", x))
                inputs = jax.tree.map(constrain_tokens, streams)
                streams = block(inputs, memory, context, dropout_key=key)
                streams = _observe(streams, lambda x: named_activations.observe("layer_outputs", x))
            return streams, (inputs if collect_inputs else None, activations)

        numbers = jnp.arange(num_layers) if named_activations.is_recording() else None
        streams, (inputs, activations) = scan_layers(
            with_remat(body, self.config.remat),
            drop(streams, 1),
            (self.layers, memory, keys, numbers),
            loop=self.config.scan_layers,
        )
        named_activations.keep_layers([range(num_layers)], [activations])
        streams = _observe(drop(streams, 3), lambda x: named_activations.observe_output(x, num_layers))
        return RelativeStackOutput(streams, inputs)


def _observe(streams: Streams, observe: Callable[[Array], Array]) -> Streams:
    """Return both streams, observed; names of the query stream begin with ``queries/``."""
    content, queries = observe(streams.content), streams.queries
    if queries is None:
        return Streams(content)
    with named_activations.scope("queries"):
        return Streams(content, observe(queries))


def remember(
    memory: Float[Array, "N B P D"] | None, inputs: Float[Array, "N B L D"], *, length: int | None
) -> Float[Array, "N B Q D"]:
    """Return the memory after a segment; gradients stop here (Dai et al. 2019, §3.2).

    Args:
      memory: Memory before the segment.
      inputs: Inputs of each block in the segment.
      length: Positions that are kept, the last ones; ``None`` for all.
    """
    if memory is not None:
        inputs = jnp.concatenate([memory.astype(inputs.dtype), inputs], axis=2)
    start = 0 if length is None else max(0, inputs.shape[2] - length)
    return jax.lax.stop_gradient(inputs[:, :, start:])
