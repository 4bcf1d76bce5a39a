"""Choices [B, C, L] as rows that an encoder reads one by one, and what it says of them side by side again."""

from typing import Any

from t5x_like.batch import Batch


def as_rows(batch: Batch) -> Batch:
    """Streams [B, C, L] become [B * C, L]; labels of whole questions stay [B]. Other batches stay as they are."""
    count = num_choices(batch)
    if not count:
        return batch

    def rows(stream: Any) -> Any:
        return stream.reshape(-1, *stream.shape[2:]) if stream is not None and stream.ndim == 3 else stream

    return Batch(*(rows(stream) for stream in batch))


def num_choices(batch: Batch) -> int:
    """How many rows a question has; 0 where questions are rows."""
    tokens = batch.encoder_input_tokens
    return tokens.shape[1] if tokens is not None and tokens.ndim == 3 else 0


def side_by_side(scores: Any, count: int) -> Any:
    """Scores [B * C, 1] of rows become those of each question's choices, [B, C]."""
    return scores.reshape(-1, count)
