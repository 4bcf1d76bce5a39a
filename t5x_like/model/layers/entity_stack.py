"""Stack of blocks that fuse tokens with the entities that they mention: ERNIE's K-encoder.

Zhang et al. 2019, https://arxiv.org/abs/1905.07129, §3.4. Each token has a place for an entity, which is the one that
it mentions, or empty. Empty places are zeros, and no place attends to them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.block import Block, BlockConfig
from t5x_like.model.layers.dropout import dropout, fold
from t5x_like.model.layers.feed_forward import ACTIVATIONS, FeedForward, FeedForwardConfig
from t5x_like.model.layers.latent_attention import LatentAttention
from t5x_like.model.layers.layer_scan import LayerLoop, scan_layers
from t5x_like.model.layers.linear import Linear, set_adapter_keys
from t5x_like.model.layers.masks import as_array, combine_masks
from t5x_like.model.layers.remat import Remat, with_remat
from t5x_like.model.layers.residual import Residual
from t5x_like.model.layers.self_attention import AttentionContext, SelfAttention
from t5x_like.partitioning.activations import constrain_inner, constrain_tokens


@config_class
class EntityStackConfig:
    """Configuration of a stack of equal blocks.

    Attributes:
      num_layers: Number of blocks.
      block: Attention and feed-forward layer of the tokens. Its feed-forward layer is where entities join.
      entity_dim: Width of the entities' vectors.
      num_entity_heads: Heads of the attention among entities; they share ``entity_dim``.
      outputs: What follows a block's fusion. ``"residual"`` adds it to its input and normalizes the sum, as in the
        authors' code, so that BERT's weights fit. ``"activation"`` is the nonlinearity alone, as equation 4 has it.
      remat: Values that the backward pass computes again, to save memory.
      scan_layers: Layers run in a loop; ``False`` writes one after another into a longer program.
    """

    num_layers: int
    block: BlockConfig
    entity_dim: int
    num_entity_heads: int
    outputs: Literal["residual", "activation"] = "residual"
    remat: Remat = "none"
    scan_layers: LayerLoop = "auto"

    def __post_init__(self) -> None:
        if self.num_layers < 1:
            raise ValueError(
                f"{self.num_layers} layers read entities; give at least 1, or take BERT, which reads none"
            )
        if self.entity_dim < 1 or self.num_entity_heads < 1 or self.entity_dim % self.num_entity_heads:
            raise ValueError(
                f"entity_dim={self.entity_dim} doesn't divide among num_entity_heads={self.num_entity_heads}; give a "
                "multiple"
            )
        feed_forward = self.block.feed_forward
        if not isinstance(feed_forward, FeedForwardConfig) or feed_forward.gated:
            raise ValueError(
                "entities join a plain feed-forward layer, neither gated nor a mixture of experts"
            )

    @property
    def mlp_dim(self) -> int:
        """Width in which tokens and entities join."""
        assert isinstance(self.block.feed_forward, FeedForwardConfig), "refused when made"
        return self.block.feed_forward.mlp_dim

    @property
    def entity_attention(self) -> AttentionConfig:
        """Attention among the entities of a row."""
        head_dim = self.entity_dim // self.num_entity_heads
        return AttentionConfig(
            num_heads=self.num_entity_heads, head_dim=head_dim, in_bias=True, out_bias=True
        )


class FusedStreams(NamedTuple):
    """Residual streams.

    Attributes:
      tokens: Vectors of tokens.
      entities: Vector of the entity of each token; zeros for tokens without one.
    """

    tokens: Float[Array, "B L D"]
    entities: Float[Array, "B L E"]


class EntityBlock(nnx.Module):
    """Attention among tokens, attention among entities, and their fusion.

    With tokens ``w`` and entities ``e`` after attention, ``h = activation(W_t w + W_e e + b)``, and both outputs are
    linear functions of ``h``. A token without an entity has ``h = activation(W_t w + b)``, as in BERT.
    """

    def __init__(self, config: EntityStackConfig, *, key: Key[Array, ""]):
        block_key, attention_key, up_key, down_key = jax.random.split(key, 4)
        dim, block, is_residual = config.entity_dim, config.block, config.outputs == "residual"
        mlp_dim, init = config.mlp_dim, block.init
        block = block if is_residual else replace(block, feed_forward_norms=())
        self.block = Block(block, key=block_key)
        self.entity_attention = Attention(config.entity_attention, dim, key=attention_key, init=init)
        self.entity_attention_residual = Residual(block.norm, dim, norm_slots=("final",))
        # One bias of the fusion, that of the tokens: an empty place adds nothing.
        self.entity_up = Linear(dim, mlp_dim, axes=("embed_factor", "mlp"), key=up_key, init=init)
        self.entity_down = Linear(
            mlp_dim, dim, axes=("mlp", "embed_factor"), key=down_key, init=init, bias=True
        )
        self.entity_residual = Residual(block.norm, dim, norm_slots=("final",)) if is_residual else None
        self.config = config

    def __call__(
        self,
        streams: FusedStreams,
        context: AttentionContext,
        entity_context: AttentionContext,
        has_entity: Bool[Array, "B L"],
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> FusedStreams:
        """Run the block.

        Args:
          streams: Tokens and entities.
          context: Mask of the tokens' attention.
          entity_context: Mask of the entities' attention.
          has_entity: True for tokens that have an entity.
          dropout_key: ``None`` for no dropout.
        """
        block, rate = self.block, self.config.block.dropout_rate
        drop = {site: {"dropout_rate": rate, "dropout_key": fold(dropout_key, site)} for site in range(7)}

        def attend(
            attention: Attention | LatentAttention, context: AttentionContext, site: int
        ) -> Callable[[Array], Float[Array, "B L _"]]:
            layer = SelfAttention(attention, None, None, rate)
            return lambda x: layer(x, context, None, fold(dropout_key, site))[0]

        tokens = block.self_attention_residual(
            streams.tokens, attend(block.self_attention, context, 0), **drop[1]
        )
        with named_activations.scope("entities"):
            entities = self.entity_attention_residual(
                streams.entities, attend(self.entity_attention, entity_context, 2), **drop[3]
            )
        has_entity_BL1 = has_entity[..., None]
        entities = jnp.where(has_entity_BL1, entities, 0)
        feed_forward = block.feed_forward
        assert isinstance(feed_forward, FeedForward), "a gated one, or experts, are refused when made"
        activation = ACTIVATIONS[feed_forward.config.activation]
        with named_activations.scope("feed_forward"):
            fused_BLF = named_activations.observe(
                "activations", activation(feed_forward.up(tokens) + self.entity_up(entities))
            )
        fused_BLF = dropout(constrain_inner(fused_BLF, -1), rate, fold(dropout_key, 4), shared_dim=1)
        if self.entity_residual is None:
            tokens, entities = (
                activation(layer(fused_BLF)) for layer in (feed_forward.down, self.entity_down)
            )
        else:
            tokens = block.feed_forward_residual(tokens, lambda _: feed_forward.down(fused_BLF), **drop[5])
            entities = self.entity_residual(entities, lambda _: self.entity_down(fused_BLF), **drop[6])
        return FusedStreams(tokens, jnp.where(has_entity_BL1, entities, 0))


class EntityStack(nnx.Module):
    """Equal blocks with stacked weights. The last block's output of entities is not read."""

    def __init__(self, config: EntityStackConfig, *, key: Key[Array, ""]):
        keys = jax.random.split(key, config.num_layers)
        self.layers = jax.vmap(lambda key: EntityBlock(config, key=key))(keys)
        self.config = config

    def __call__(
        self,
        streams: FusedStreams,
        context: AttentionContext,
        has_entity: Bool[Array, "B L"],
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> FusedStreams:
        """Run whole sequences.

        Args:
          streams: Tokens and entities.
          context: Masks that all blocks share, from ``Stack.prepared``.
          has_entity: True for tokens that have an entity.
          dropout_key: ``None`` for no dropout.
        """
        num_layers, length = self.config.num_layers, streams.tokens.shape[1]
        keys = None if dropout_key is None else jax.random.split(dropout_key, num_layers)
        visible = as_array(context.mask, num_queries=length, num_keys=length)
        entity_context = AttentionContext(mask=combine_masks(visible, has_entity[:, None, None, :]))

        def run_layer(
            streams: FusedStreams, layer: tuple[EntityBlock, Array, Array | None]
        ) -> tuple[FusedStreams, dict[str, Array]]:
            block, number, key = layer
            set_adapter_keys(block, key)
            with named_activations.layer(number, num_layers) as activations:
                tokens = named_activations.observe(named_activations.HIDDEN_STATES, streams.tokens)
                ran = block(
                    FusedStreams(constrain_tokens(tokens), streams.entities),
                    context,
                    entity_context,
                    has_entity,
                    dropout_key=key,
                )
                tokens = named_activations.observe("layer_outputs", ran.tokens)
            return FusedStreams(tokens, ran.entities), activations

        streams, activations = scan_layers(
            with_remat(run_layer, self.config.remat),
            streams,
            (self.layers, jnp.arange(num_layers), keys),
            loop=self.config.scan_layers,
        )
        named_activations.keep_layers([range(num_layers)], [activations])
        return FusedStreams(named_activations.observe_output(streams.tokens, num_layers), streams.entities)
