"""Layers with the same weights (Lan et al. 2020, https://arxiv.org/abs/1909.11942, §3.1)."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from t5x_like.model.layers.block import Block

_ATTENTION = (
    "self_attention",
    "relative_bias",
    "around_self_attention",
    "cross_attention",
    "around_cross_attention",
)
_FEED_FORWARD = ("feed_forward", "around_feed_forward")


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """The weights that each layer uses: ``attention[i]`` and ``feed_forward[i]`` number those of layer ``i``."""

    attention: tuple[int, ...]
    feed_forward: tuple[int, ...]

    def check(self, blocks: Sequence[Hashable]) -> None:
        """Refuses what can't be shared.

        Raises:
          ValueError: layers that differ, or not one number for each.
        """
        if len(set(blocks)) > 1:
            raise ValueError("only equal layers can share weights; these differ")
        for numbers in (self.attention, self.feed_forward):
            if len(numbers) != len(blocks) or set(numbers) != set(range(max(numbers) + 1)):
                raise ValueError(
                    f"sharing {numbers} among {len(blocks)} layers: give each the number of its weights, from 0 on"
                )


def share(block: Block, sharing: Sharing) -> Block:
    """The stacked block with as many weights along its leading axis as there are numbers."""
    for names, numbers in ((_ATTENTION, sharing.attention), (_FEED_FORWARD, sharing.feed_forward)):
        for name in names:
            kept = max(numbers) + 1
            setattr(block, name, jax.tree.map(lambda array, kept=kept: array[:kept], getattr(block, name)))
    return block


def shared_block(block: Block, sharing: Sharing, layer: Int[Array, ""]) -> Block:
    """The block of one layer, which holds the weights of its numbers.

    Gradients of all layers add up in the arrays that they share.
    """
    one = jax.tree.map(lambda array: array, block)  # another module around the same arrays
    for names, numbers in ((_ATTENTION, sharing.attention), (_FEED_FORWARD, sharing.feed_forward)):
        number = jnp.asarray(numbers)[layer]
        for name in names:
            part = jax.tree.map(lambda array, number=number: array[number], getattr(block, name))
            setattr(one, name, part)
    return one
