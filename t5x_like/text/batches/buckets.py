"""Batches as short as what they hold: few lengths, for a program is compiled for each."""

from collections.abc import Sequence

import numpy as np

from t5x_like.batch import Batch, bucket_length
from t5x_like.text.batches.order import permuted


def cut_to_bucket(batch: Batch, *, shortest: int = 16) -> Batch:
    """An encoder's batch without the columns of padding that the next shorter bucket doesn't need."""
    limit = batch.encoder_segment_ids.shape[-1]
    longest = int((batch.encoder_segment_ids > 0).sum(axis=-1).max(initial=0))
    length = bucket_length(longest, limit, shortest=shortest)
    if length == limit:
        return batch
    # What is there for each token ends in their length: [B, L], of choices [B, C, L].
    per_token = batch.encoder_segment_ids.shape
    return Batch(
        *(stream if stream is None or stream.shape != per_token else stream[..., :length] for stream in batch)
    )


def like_lengths_together(sizes: Sequence[int] | np.ndarray, batch_size: int, key: np.ndarray) -> np.ndarray:
    """An order, int64 [N], in which ``batch_size`` examples of like length follow each other.

    Which of the groups comes first is drawn by ``key``; only the last in order of length may be smaller.
    """
    by_size = np.argsort(np.asarray(sizes), kind="stable")
    num_groups = -(-len(by_size) // batch_size)
    whole = len(by_size) // batch_size
    drawn = permuted(np.arange(whole), whole, key) if whole else np.zeros(0, np.int64)
    groups = [
        by_size[group * batch_size : (group + 1) * batch_size]
        for group in (*drawn, *range(whole, num_groups))
    ]
    return np.concatenate(groups) if groups else by_size
