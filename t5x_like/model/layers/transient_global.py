"""Transient-global attention: to neighbors, and to a summary of every block (Guo et al. 2022, §3.1.2).

https://arxiv.org/abs/2112.07916. Every layer makes its own summaries: normalized sums of a block's tokens. Tokens left
over at the end of a segment belong to its last whole block; a segment shorter than a block has no summary. Packed
examples have their own blocks and don't attend to each other's.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import Attention
from t5x_like.model.layers.local_attention import GlobalKeysValues
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.positions import RelativeBias, RelativeBuckets


@config_class
class TransientGlobalConfig:
    """Summaries of blocks.

    Attributes:
      block_size: Tokens of a block.
      positions: Relative positions, counted in blocks.
    """

    block_size: int
    positions: RelativeBuckets

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise ValueError(f"block_size is {self.block_size}; give a positive number of tokens")


class Blocks(NamedTuple):
    """Blocks of all segments, one after another.

    Attributes:
      of_tokens: Block of each token; -1 where it has none.
      segment_ids: Segment of each block; 0 for blocks without tokens.
    """

    of_tokens: Int[Array, "B L"]
    segment_ids: Int[Array, "B M"]


class GlobalBlocks(NamedTuple):
    """Inputs about blocks that all layers share.

    Attributes:
      blocks: Blocks of tokens.
      token_segment_ids: Segment of each token.
      bias: Relative position bias between tokens and blocks.
    """

    blocks: Blocks
    token_segment_ids: Int[Array, "B L"]
    bias: Float[Array, "B H L M"]


class TransientGlobal(nnx.Module):
    """Computes the summaries of one layer."""

    def __init__(self, norm: NormConfig, model_dim: int):
        self.norm = norm.build(model_dim)

    def __call__(
        self, x: Float[Array, "B L D"], attention: Attention, context: GlobalBlocks
    ) -> GlobalKeysValues:
        """Return keys and values of all blocks' summaries.

        Args:
          x: Inputs of the attention layer.
          attention: Its projections.
          context: Blocks of the tokens.
        """
        blocks, of_tokens = context.blocks, context.token_segment_ids
        is_part = jax.nn.one_hot(blocks.of_tokens, blocks.segment_ids.shape[1], dtype=x.dtype)
        sums_BMD = jnp.einsum("bld,blm->bmd", x, is_part, preferred_element_type=jnp.float32)
        mask = of_tokens[:, :, None] == blocks.segment_ids[:, None, :]
        return GlobalKeysValues(
            attention.project_keys_values(self.norm(sums_BMD.astype(x.dtype))), mask[:, None], context.bias
        )


def globals_of(
    segment_ids: Int[Array, "B L"], config: TransientGlobalConfig, bias: RelativeBias
) -> GlobalBlocks:
    """Return the inputs that all layers share.

    Args:
      segment_ids: 0 for padding; blocks don't cross segments.
      config: Size of blocks.
      bias: Bias for distances between tokens and blocks.
    """
    blocks = blocks_of(segment_ids, config.block_size)
    numbers = jnp.arange(blocks.segment_ids.shape[1])

    def of_row(block_of_tokens: Int[Array, " L"]) -> Float[Array, "H L M"]:
        return bias(block_of_tokens, numbers, len(numbers) + 2, bidirectional=True)[0]

    return GlobalBlocks(blocks, segment_ids, jax.vmap(of_row)(blocks.of_tokens))


def blocks_of(segment_ids: Int[Array, "B L"], size: int) -> Blocks:
    """Cut every segment into blocks of ``size`` tokens.

    Args:
      segment_ids: Number of each token's segment; 0 for padding.
      size: Tokens of a block.
    """
    return jax.vmap(lambda row: Blocks(*_blocks_of_row(row, size)))(segment_ids)


def _blocks_of_row(segment_ids: Int[Array, " L"], size: int) -> tuple[Int[Array, " L"], Int[Array, " M"]]:
    length = len(segment_ids)
    indices = jnp.arange(length)
    real = segment_ids > 0
    by_segment = jnp.zeros(length + 1, jnp.int32)
    # As in transformers, the first segment's blocks are cut from the row's start on, padding on the left included.
    starts = jnp.full(length + 1, length, jnp.int32).at[segment_ids].min(indices).at[1].set(0)
    index_in_segment = indices - starts[segment_ids]
    ends_block = real & (index_in_segment % size == size - 1)
    num_blocks = by_segment.at[segment_ids].add(ends_block.astype(jnp.int32))
    last_block = jnp.cumsum(num_blocks)
    first_block = last_block - num_blocks
    block_in_segment = jnp.minimum(index_in_segment // size, num_blocks[segment_ids] - 1)
    of_tokens = jnp.where(real & (block_in_segment >= 0), first_block[segment_ids] + block_in_segment, -1)
    owners = jnp.searchsorted(last_block, jnp.arange(length // size), side="right")
    return of_tokens, jnp.where(owners > length, 0, owners).astype(jnp.int32)
