"""Multiple choice: choices [B, C, L] become rows of the encoder, and scores of rows become those of choices."""

from typing import Any

from t5x_like.batch import Batch


def flatten_choices(batch: Batch) -> Batch:
    """Reshape streams [B, C, L] to [B * C, L]. Labels of questions [B] and other batches stay."""
    count = num_choices(batch)
    if not count:
        return batch

    def rows(stream: Any) -> Any:
        return stream.reshape(-1, *stream.shape[2:]) if stream is not None and stream.ndim == 3 else stream

    return Batch(*(rows(stream) for stream in batch))


def num_choices(batch: Batch) -> int:
    """Return the number of choices of a question; 0 where rows are no choices."""
    tokens = batch.encoder_input_tokens
    return tokens.shape[1] if tokens is not None and tokens.ndim == 3 else 0


def scores_by_choice(scores: Any, count: int) -> Any:
    """Reshape scores of rows [B * C, 1] to those of choices [B, C]; ``count`` is C."""
    return scores.reshape(-1, count)
