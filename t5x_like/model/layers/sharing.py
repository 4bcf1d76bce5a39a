"""Layers that share weights (ALBERT, Lan et al. 2020, https://arxiv.org/abs/1909.11942, §3.1)."""

from collections.abc import Hashable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from t5x_like.config_class import config_class
from t5x_like.model.layers.block import Block

_ATTENTION = (
    "self_attention",
    "relative_bias",
    "self_attention_residual",
    "cross_attention",
    "cross_attention_residual",
)
_FEED_FORWARD = ("feed_forward", "feed_forward_residual")


@config_class
class Sharing:
    """Weights that each layer uses.

    Attributes:
      attention: Number of the attention weights of each layer, from 0 on.
      feed_forward: Number of the feed-forward weights of each layer, from 0 on.
    """

    attention: tuple[int, ...]
    feed_forward: tuple[int, ...]

    def check(self, blocks: Sequence[Hashable]) -> None:
        """Refuse blocks that can't share weights.

        Raises:
          ValueError: Blocks differ, or there is not one number for each.
        """
        if len(set(blocks)) > 1:
            raise ValueError("only equal layers can share weights; these differ")
        for numbers in (self.attention, self.feed_forward):
            if len(numbers) != len(blocks) or set(numbers) != set(range(max(numbers) + 1)):
                raise ValueError(
                    f"sharing {numbers} among {len(blocks)} layers: give each the number of its weights, from 0 on"
                )


def share(block: Block, sharing: Sharing) -> Block:
    """Cut the stacked block's weights to as many as layers use.

    Args:
      block: Weights of all layers, stacked; changed in place.
      sharing: Index of each layer's weights.
    """
    for names, numbers in ((_ATTENTION, sharing.attention), (_FEED_FORWARD, sharing.feed_forward)):
        for name in names:
            kept = max(numbers) + 1
            setattr(block, name, jax.tree.map(lambda array, kept=kept: array[:kept], getattr(block, name)))
    return block


def shared_block(block: Block, sharing: Sharing, layer: Int[Array, ""]) -> Block:
    """Return the block of one layer. Gradients of layers that share weights add up.

    Args:
      block: Stacked weights.
      sharing: Index of each layer's weights.
      layer: Index of the layer.
    """
    one = jax.tree.map(lambda array: array, block)  # another module around the same arrays
    for names, numbers in ((_ATTENTION, sharing.attention), (_FEED_FORWARD, sharing.feed_forward)):
        index = jnp.asarray(numbers)[layer]
        for name in names:
            part = jax.tree.map(lambda array, index=index: array[index], getattr(block, name))
            setattr(one, name, part)
    return one
