"""Attention masks, made from the batch: True where a query may attend to a key."""

from enum import IntEnum
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from t5x_like.config_class import config_class

# Far below every score, yet finite: a query without visible keys gets an average, not a not-a-number.
MASKED = -1e10


@config_class
class SlidingWindow:
    """Limits attention to keys near the query.

    Attributes:
      left: Keys before the query.
      right: Keys after the query.
    """

    left: int
    right: int = 0

    def __post_init__(self) -> None:
        if self.left < 0 or self.right < 0:
            raise ValueError(f"a window of {self.left} places left and {self.right} right; give 0 or more")


def real_tokens(segment_ids: Int[Array, "B L"] | None) -> Bool[Array, "B L"] | None:
    """Return True where there is no padding; ``None`` where there is none anywhere."""
    return None if segment_ids is None else segment_ids > 0


def segment_mask(
    queries: Int[Array, "B L"] | None, keys: Int[Array, "B M"] | None
) -> Bool[Array, "B 1 L M"] | None:
    """Return True where query and key belong to the same example.

    No query attends to padding, and padding attends to all real keys, as in transformers.

    Args:
      queries: Segment ids of the queries; ``None`` if each row is one example without padding.
      keys: Segment ids of the keys, likewise.

    Returns:
      The mask, or ``None`` where all is visible.
    """
    if queries is None:
        return None if keys is None else (keys > 0)[:, None, None, :]
    if keys is None:
        return (queries > 0)[:, None, :, None]
    queries_BL1, keys_B1M = queries[:, :, None], keys[:, None, :]
    return (((queries_BL1 == keys_B1M) | (queries_BL1 == 0)) & (keys_B1M > 0))[:, None]


def causal_mask(queries: Int[Array, " L"], keys: Int[Array, " M"]) -> Bool[Array, "1 1 L M"]:
    """Return True where the key is not after the query.

    Args:
      queries: Index of each query in its row.
      keys: Index of each key in its row.
    """
    return (keys[None, :] <= queries[:, None])[None, None]


def prefix_mask(prefix: Int[Array, "B M"]) -> Bool[Array, "B 1 1 M"]:
    """Return True where the key belongs to the prefix, visible to earlier queries too (Raffel et al. 2020, §3.2.1)."""
    return (prefix > 0)[:, None, None, :]


def window_mask(
    queries: Int[Array, " L"], keys: Int[Array, " M"], window: SlidingWindow
) -> Bool[Array, "1 1 L M"]:
    """Return True where the key is at most ``left`` tokens before and ``right`` tokens after the query.

    Distances are of indices in the row, not of positions, as in transformers.

    Args:
      queries: Index of each query in its row.
      keys: Index of each key in its row.
      window: Width on both sides.
    """
    distance_LM = keys[None, :] - queries[:, None]
    return ((distance_LM >= -window.left) & (distance_LM <= window.right))[None, None]


class AttentionDirection(IntEnum):
    """Direction of attention in an example (UniLM, Dong et al. 2019, https://arxiv.org/abs/1905.03197, figure 1)."""

    BIDIRECTIONAL = 0
    LEFT_TO_RIGHT = 1
    RIGHT_TO_LEFT = 2
    SEQUENCE_TO_SEQUENCE = 3  # bidirectional in the source; the target attends to it and to earlier targets


def direction_mask(
    directions: Int[Array, " B"],
    source_lengths: Int[Array, " B"],
    total_lengths: Int[Array, " B"],
    *,
    length: int,
) -> Bool[Array, "B {length} {length}"]:
    """Return a ``Batch.attention_mask`` from the direction of each example.

    Args:
      directions: An ``AttentionDirection`` for each row.
      source_lengths: Tokens of the source, which starts the row.
      total_lengths: Tokens of source and target; padding follows.
      length: Length of rows.
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


def rank_mask(ranks: Int[Array, "B L"], keys: Int[Array, "B M"] | None = None) -> Bool[Array, "B 1 L M"]:
    """Return True where the key's rank in the order of prediction is at most the query's.

    Equal ranks attend to each other. All ranks 0 are bidirectional, rising ranks left to right, falling ranks right to
    left. Ranks of 0 for a source and rising ones for a target are a prefix. These are UniLM's four directions (see
    ``AttentionDirection``).

    Args:
      ranks: Ranks of the queries.
      keys: Ranks of the keys; ``None`` for those of the queries.
    """
    keys = ranks if keys is None else keys
    return (keys[:, None, :] <= ranks[:, :, None])[:, None]


def strict_rank_mask(ranks: Int[Array, "B L"]) -> Bool[Array, "B 1 L L"]:
    """Return True for keys that a token may be predicted from: of lower rank, of rank 0, or other ones of its own rank.

    XLNet, Yang et al. 2019, https://arxiv.org/abs/1906.08237, §2.3: a target doesn't attend to itself, and has a rank
    of its own. Tokens that are no targets share a rank: 0, or that of their part of the row.
    """
    keys_B1L, queries_BL1 = ranks[:, None, :], ranks[:, :, None]
    others_LL = ~jnp.eye(ranks.shape[1], dtype=bool)
    return ((keys_B1L < queries_BL1) | ((keys_B1L == queries_BL1) & others_LL[None]) | (keys_B1L == 0))[
        :, None
    ]


def combine_masks(
    left: Bool[Array, "..."] | None, right: Bool[Array, "..."] | None
) -> Bool[Array, "..."] | None:
    """Return the conjunction of two masks; ``None`` allows everything.

    Args:
      left: Mask; None allows everything.
      right: Mask; None allows everything.
    """
    if left is None or right is None:
        return right if left is None else left
    return jnp.logical_and(left, right)


class AttentionMask(NamedTuple):
    """Conditions of attention from a whole sequence of queries to keys, from which any part of the mask can be made.

    A key is visible if it is not after the query, or its rank allows it, or it belongs to the prefix; and if it is in
    the query's segment and window, and ``allowed``.

    Attributes:
      query_segment_ids: See ``segment_mask``.
      key_segment_ids: See ``segment_mask``.
      causal: Keys after the query are hidden, except for those of the prefix.
      query_ranks: See ``rank_mask``; replaces ``causal``.
      key_ranks: Ranks of the keys.
      prefix: See ``prefix_mask``.
      window: See ``window_mask``.
      allowed: Any further mask.
    """

    query_segment_ids: Int[Array, "B L"] | None = None
    key_segment_ids: Int[Array, "B M"] | None = None
    causal: bool = False
    query_ranks: Int[Array, "B L"] | None = None
    key_ranks: Int[Array, "B M"] | None = None
    prefix: Int[Array, "B M"] | None = None
    window: SlidingWindow | None = None
    allowed: Bool[Array, "..."] | None = None

    def between(self, queries: Int[Array, " L"], keys: Int[Array, " M"]) -> Bool[Array, "..."] | None:
        """Return the mask between places of queries and of keys; ``None`` where all is visible.

        Args:
          queries: Place of each query that this object describes.
          keys: Place of each key.
        """
        mask = causal_mask(queries, keys) if self.causal else None
        if self.query_ranks is not None:
            mask = rank_mask(self.query_ranks, self.key_ranks)
        if mask is not None and self.prefix is not None:
            mask = mask | prefix_mask(self.prefix)
        mask = combine_masks(mask, segment_mask(self.query_segment_ids, self.key_segment_ids))
        if self.window is not None:
            mask = combine_masks(mask, window_mask(queries, keys, self.window))
        return combine_masks(mask, self.allowed)

    def may_see(self, query: range, key: range) -> bool:
        """Return ``False`` if no query of a range sees any key of a range, whatever the batch contains.

        Args:
          query: Indices of queries in the row.
          key: Indices of keys in the row.
        """
        window = self.window
        if self.causal and self.query_ranks is None and self.prefix is None and key.start >= query.stop:
            return False
        if window is None:
            return True
        return key.stop > query.start - window.left and key.start < query.stop + window.right


def as_mask(mask: AttentionMask | Bool[Array, "..."] | None) -> AttentionMask:
    """Return a mask that is given as an array, or none, as conditions."""
    return mask if isinstance(mask, AttentionMask) else AttentionMask(allowed=mask)


def as_array(
    mask: AttentionMask | Bool[Array, "..."] | None, *, num_queries: int, num_keys: int
) -> Bool[Array, "..."] | None:
    """Return the whole mask.

    Args:
      mask: Mask in either form; None allows everything.
      num_queries: Number of queries.
      num_keys: Number of keys.
    """
    if not isinstance(mask, AttentionMask):
        return mask
    return mask.between(jnp.arange(num_queries), jnp.arange(num_keys))
