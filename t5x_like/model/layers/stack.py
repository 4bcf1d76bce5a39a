"""Blocks on top of each other, stacked into arrays with a leading layers axis and run by one scan."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.model.layers.attention import KeysValues
from t5x_like.model.layers.block import Block, BlockConfig, Surroundings
from t5x_like.model.layers.cache import LayerCache
from t5x_like.model.layers.dropout import dropout, fold
from t5x_like.model.layers.masks import both, causal_mask
from t5x_like.model.layers.norm import RMSNorm
from t5x_like.model.layers.positions import RelativeBias, RelativeBuckets
from t5x_like.partitioning.shard import constrain_rows

# Which values of the forward pass are kept for the backward pass: all; matrix products; nothing but each block's input.
Rematerialisation = Literal["none", "minimal", "full"]

_KEPT = {
    "minimal": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "full": jax.checkpoint_policies.nothing_saveable,
}


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """``num_layers`` equal blocks, one table of relative positions for all, dropout at both ends, a final norm."""

    block: BlockConfig
    num_layers: int
    causal: bool
    relative_positions: RelativeBuckets
    rematerialisation: Rematerialisation = "none"


class StackOutput(NamedTuple):
    """``hidden``, if collected, holds the input of every block and then the normed output: [N + 1, B, L, D]."""

    output: Float[Array, "B L D"]
    hidden: Float[Array, "N1 B L D"] | None
    layer_caches: LayerCache | None


class Stack(nnx.Module):
    """An encoder or a decoder without its embeddings."""

    def __init__(self, config: StackConfig, *, key: Key[Array, ""]):
        layers_key, bias_key = jax.random.split(key)
        keys = jax.random.split(layers_key, config.num_layers)
        self.layers = jax.vmap(lambda key: Block(config.block, key=key))(keys)
        self.relative_bias = RelativeBias(
            config.relative_positions, num_heads=config.block.attention.num_heads, key=bias_key
        )
        self.final_norm = RMSNorm(config.block.model_dim, epsilon=config.block.norm_epsilon)
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        around: Surroundings,
        *,
        dropout_key: Key[Array, ""] | None = None,
        collect_hidden: bool = False,
    ) -> StackOutput:
        """Runs whole sequences. ``around.mask`` says who may look at whom; a causal stack adds the future to it."""
        positions = jnp.arange(x.shape[1])
        mask = causal_mask(positions, positions) if self.config.causal else None
        around = around._replace(
            mask=both(around.mask, mask), bias=self.relative_bias(positions, positions, x.shape[1])
        )
        return self._scan(x, around, None, dropout_key, collect_hidden)

    def step(
        self, x: Float[Array, "B 1 D"], caches: LayerCache, around: Surroundings, position: Int[Array, ""]
    ) -> StackOutput:
        """Runs the token at ``position`` against the cache of those before it."""
        length = caches.own.keys.shape[2]
        queries, keys = position[None], jnp.arange(length)
        around = around._replace(
            mask=causal_mask(queries, keys), bias=self.relative_bias(queries, keys, length), position=position
        )
        return self._scan(x, around, caches, None, collect_hidden=False)

    def empty_caches(
        self, batch_size: int, max_length: int, encoded: Float[Array, "B M D"] | None, dtype: jnp.dtype
    ) -> LayerCache:
        """Every layer's memory before the first token; what cross-attention looks at is computed here, once."""
        attention = self.config.block.attention
        shape = (self.config.num_layers, batch_size, max_length, attention.num_heads, attention.head_dim)
        own = KeysValues(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))
        if encoded is None:
            return LayerCache(own, None)
        return LayerCache(
            own, jax.vmap(lambda block: block.cross_attention.keys_values(encoded))(self.layers)
        )

    def _scan(
        self,
        x: Array,
        around: Surroundings,
        caches: LayerCache | None,
        dropout_key: Key[Array, ""] | None,
        collect_hidden: bool,
    ) -> StackOutput:
        rate = self.config.block.dropout_rate
        layers_key = fold(dropout_key, 0)
        keys = None if layers_key is None else jax.random.split(layers_key, self.config.num_layers)

        def body(x: Array, layer: tuple[Block, LayerCache | None, Any]) -> tuple[Array, Any]:
            block, cache, key = layer
            out, cache = block(constrain_rows(x), around, cache=cache, dropout_key=key)
            # What is encoded stays as it is: returned from the scan it would be copied at every token.
            return out, (None if cache is None else cache.own, x if collect_hidden else None)

        x = dropout(x, rate, fold(dropout_key, 1), shared_dim=1)
        if self.config.rematerialisation != "none":
            body = jax.checkpoint(body, policy=_KEPT[self.config.rematerialisation])
        x, (own, inputs) = jax.lax.scan(body, x, (self.layers, caches, keys))
        x = dropout(self.final_norm(x), rate, fold(dropout_key, 2), shared_dim=1)
        hidden = jnp.concatenate([inputs, x[None]]) if collect_hidden else None
        return StackOutput(x, hidden, None if caches is None else caches._replace(own=own))
