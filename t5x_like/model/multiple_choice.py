"""Examples of several rows [B, C, L], such as choices: rows for the model, and scores of examples from theirs."""

from typing import Any

from t5x_like.batch import Batch, DataField


def flatten_choices(batch: Batch) -> Batch:
    """Reshape streams of rows: [B, C, L] to [B * C, L]. Values of examples [B] and other batches stay."""
    if not num_choices(batch):
        return batch

    def rows(field: DataField, stream: Any) -> Any:
        return stream if field.level == "example" else stream.reshape(-1, *stream.shape[2:])

    return batch.map(rows)


def num_choices(batch: Batch) -> int:
    """Return the number of rows of an example; 0 where every row is one."""
    tokens = batch.decoder_input_tokens if batch.encoder_input_tokens is None else batch.encoder_input_tokens
    return tokens.shape[1] if tokens is not None and tokens.ndim == 3 else 0


def scores_of_examples(scores: Any, num_examples: int, *, are_choices: bool) -> Any:
    """Return scores of examples from those of their rows.

    Args:
      scores: Scores of rows [B * C, K].
      num_examples: Number of examples B.
      are_choices: Rows are choices with one score each, and the result is [B, C]. Otherwise rows are both orders of a
        pair, whose scores are added to [B, K]. That adds their representations before the linear layer, if it has no
        bias (Radford et al. 2018, §3.3).
    """
    if are_choices:
        return scores.reshape(num_examples, -1)
    return (
        scores if len(scores) == num_examples else scores.reshape(num_examples, -1, scores.shape[-1]).sum(1)
    )
