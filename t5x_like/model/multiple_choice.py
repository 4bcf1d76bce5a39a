"""Multiple choice: choices [B, C, L] become rows for the encoder, and the scores of rows those of choices again."""

from typing import Any

from t5x_like.batch import Batch


def flatten_choices(batch: Batch) -> Batch:
    """Streams [B, C, L] become [B * C, L]; labels of whole questions stay [B]. Other batches stay as they are."""
    count = num_choices(batch)
    if not count:
        return batch

    def rows(stream: Any) -> Any:
        return stream.reshape(-1, *stream.shape[2:]) if stream is not None and stream.ndim == 3 else stream

    return Batch(*(rows(stream) for stream in batch))


def num_choices(batch: Batch) -> int:
    """The number of choices of a question; 0 where rows are no choices."""
    tokens = batch.encoder_input_tokens
    return tokens.shape[1] if tokens is not None and tokens.ndim == 3 else 0


def scores_by_choice(scores: Any, count: int) -> Any:
    """Scores [B * C, 1] of rows become those of each question's choices, [B, C]."""
    return scores.reshape(-1, count)
