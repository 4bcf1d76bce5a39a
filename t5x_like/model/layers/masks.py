"""Attention masks: data made from the batch, never a property of a layer."""

from dataclasses import dataclass
from enum import IntEnum

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


@dataclass(frozen=True, kw_only=True)
class SlidingWindow:
    """The places that local attention sees besides the query's own.

    Attributes:
      left: how many before it.
      right: how many after it.
    """

    left: int
    right: int = 0

    def __post_init__(self) -> None:
        if self.left < 0 or self.right < 0:
            raise ValueError(f"a window of {self.left} places left and {self.right} right; give 0 or more")


def real_tokens(segment_ids: Int[Array, "B L"] | None) -> Bool[Array, "B L"] | None:
    """True where there is no padding; ``None`` where there is none anywhere."""
    return None if segment_ids is None else segment_ids > 0


def segment_mask(
    queries: Int[Array, "B L"] | None, keys: Int[Array, "B M"] | None
) -> Bool[Array, "B 1 L M"] | None:
    """True where query and key belong to the same example; ``None`` where every position is real and one row is one.

    Padding is seen by none and sees all that is real, as in transformers. Without segments on one side, that side sees
    all real positions of the other.
    """
    if queries is None:
        return None if keys is None else (keys > 0)[:, None, None, :]
    if keys is None:
        return (queries > 0)[:, None, :, None]
    queries_BL1, keys_B1M = queries[:, :, None], keys[:, None, :]
    return (((queries_BL1 == keys_B1M) | (queries_BL1 == 0)) & (keys_B1M > 0))[:, None]


def causal_mask(queries: Int[Array, " L"], keys: Int[Array, " M"]) -> Bool[Array, "1 1 L M"]:
    """True where the key does not lie after the query."""
    return (keys[None, :] <= queries[:, None])[None, None]


def prefix_mask(prefix: Int[Array, "B M"]) -> Bool[Array, "B 1 1 M"]:
    """True where the key belongs to the part that may be seen from before it (Raffel et al. 2020, §3.2.1)."""
    return (prefix > 0)[:, None, None, :]


def window_mask(
    queries: Int[Array, " L"], keys: Int[Array, " M"], window: SlidingWindow
) -> Bool[Array, "1 1 L M"]:
    """True where the key lies at most ``left`` places before and ``right`` places after the query.

    Positions don't matter: tokens are as near as they stand, as in transformers, wherever they are said to be.
    """
    distance_LM = keys[None, :] - queries[:, None]
    return ((distance_LM >= -window.left) & (distance_LM <= window.right))[None, None]


class AttentionDirection(IntEnum):
    """The keys that an example's tokens attend to (Dong et al. 2019, https://arxiv.org/abs/1905.03197, figure 1)."""

    BIDIRECTIONAL = 0
    LEFT_TO_RIGHT = 1
    RIGHT_TO_LEFT = 2
    SEQUENCE_TO_SEQUENCE = 3  # the source in both directions, the target at it and at what was written so far


def direction_mask(
    directions: Int[Array, " B"],
    source_lengths: Int[Array, " B"],
    total_lengths: Int[Array, " B"],
    *,
    length: int,
) -> Bool[Array, "B {length} {length}"]:
    """True where the query may look at the key: by an ``AttentionDirection`` for each example.

    Source and target follow each other from the row's start; beyond the total there is padding, seen by none. Goes
    into ``Batch.attention_mask``.
    """
    queries_L1, keys_1L = jnp.arange(length)[:, None], jnp.arange(length)[None, :]
    before_BLL = jnp.broadcast_to(keys_1L <= queries_L1, (len(directions), length, length))
    after_BLL = jnp.broadcast_to(keys_1L >= queries_L1, before_BLL.shape)
    source_BLL = before_BLL | (keys_1L[None] < source_lengths[:, None, None])
    directions_B11 = directions[:, None, None]
    allowed_BLL = (
        (directions_B11 == AttentionDirection.BIDIRECTIONAL)
        | ((directions_B11 == AttentionDirection.LEFT_TO_RIGHT) & before_BLL)
        | ((directions_B11 == AttentionDirection.RIGHT_TO_LEFT) & after_BLL)
        | ((directions_B11 == AttentionDirection.SEQUENCE_TO_SEQUENCE) & source_BLL)
    )
    return allowed_BLL & (keys_1L[None] < total_lengths[:, None, None])


def rank_mask(ranks: Int[Array, "B L"]) -> Bool[Array, "B 1 L L"]:
    """True where the key's rank in the order of prediction is the query's or a lower one.

    Equal ranks look at each other. All 0 is both ways, counting up left to right, counting down right to left; 0 for a
    source and counting from 1 in the target is a prefix: the four of UniLM (see ``AttentionDirection``).
    """
    return (ranks[:, None, :] <= ranks[:, :, None])[:, None]


def strict_rank_mask(ranks: Int[Array, "B L"]) -> Bool[Array, "B 1 L L"]:
    """True where the key's rank is lower than the query's, or 0: what a token may be predicted from (XLNet).

    Yang et al. 2019, https://arxiv.org/abs/1906.08237, §2.3: a target sees nothing of its own rank, not even itself.
    Rank 0 belongs to what is no target.
    """
    keys_B1L = ranks[:, None, :]
    return ((keys_B1L < ranks[:, :, None]) | (keys_B1L == 0))[:, None]


def combine_masks(
    left: Bool[Array, "..."] | None, right: Bool[Array, "..."] | None
) -> Bool[Array, "..."] | None:
    """The places that both masks allow; ``None`` allows everything."""
    if left is None or right is None:
        return right if left is None else left
    return jnp.logical_and(left, right)
