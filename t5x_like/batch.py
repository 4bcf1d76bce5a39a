"""The batch: the contract between ``text``, which makes it, and ``model``, which reads it."""

from typing import Any, NamedTuple

Array = Any  # numpy.ndarray from text/, jax.Array on the mesh, None if absent: this file imports neither


class Batch(NamedTuple):
    """One batch of token ids. A plain tuple, hence a JAX pytree; absent streams are ``None``.

    Encoders read the encoder's stream, decoders the decoder's, encoder-decoders both. Targets belong to the decoder's
    positions where there is a decoder, else to the encoder's. Rows for a head have the encoder's stream only: a decoder
    reads it as its own, both stacks of an encoder-decoder read it. With several rows per example (multiple choice,
    both orders of a pair), streams are [B, C, L] and labels [B].

    Attributes:
      encoder_input_tokens: int32 [B, M].
      encoder_segment_ids: int32 [B, M]; 0 is padding, ``k`` the k-th example packed into the row. Without them every
        position is real and each row is one example.
      encoder_positions: int32 [B, M], from 0 in each segment. Without them they count from 0 in each row.
      decoder_input_tokens: int32 [B, L], targets shifted right inside each segment.
      decoder_segment_ids: int32 [B, L], as the encoder's.
      decoder_positions: int32 [B, L], as the encoder's.
      target_tokens: int32 [B, L].
      loss_weights: float32 [B, L]; 0 for positions without a target.
      task_ids: int32 [B, L], index in the mixture of each target's task.
      token_types: int32 [B, L], such as first and second sentence (BERT).
      task_types: int32 [B, L], types of pretraining tasks (ERNIE 2.0).
      block_positions: int32 [B, L], positions inside a masked span, from 1; 0 outside (GLM).
      prefix: int32 [B, L]; 1 where earlier positions of a decoder may attend to a token (prefix language model).
      attention_mask: bool [B, L, M]; limits attention further than segments do (UniLM).
      ranks: int32 [B, L], order of prediction: a token attends to lower or equal ranks, and all to 0. Ranks give
        encoders and decoders their direction of attention (UniLM), and XLNet the order of prediction.
      sequence_labels: int32 [B], labels of whole sequences, such as next sentence or class.
      continues: int32 [B]; 1 where a row continues the same row of the batch before, 0 where it starts
        (Transformer-XL).
      sequence_values: float32 [B], numbers to predict for whole sequences; not-a-number where unlabeled.
      sequence_spans: int32 [B, 2], first and last token of an answer; 0 and 0 for no answer, -1 where unlabeled.
      sequence_classes: int32 [B, C], 1 for each class of a row with several, 0 for the others; -1 where unlabeled.
    """

    encoder_input_tokens: Array = None
    encoder_segment_ids: Array = None
    encoder_positions: Array = None
    decoder_input_tokens: Array = None
    decoder_segment_ids: Array = None
    decoder_positions: Array = None
    target_tokens: Array = None
    loss_weights: Array = None
    task_ids: Array = None
    token_types: Array = None
    task_types: Array = None
    block_positions: Array = None
    prefix: Array = None
    attention_mask: Array = None
    ranks: Array = None
    sequence_labels: Array = None
    continues: Array = None
    sequence_values: Array = None
    sequence_spans: Array = None
    sequence_classes: Array = None


# Fields with values of whole rows.
_OF_ROWS = ("sequence_labels", "continues", "sequence_values", "sequence_spans", "sequence_classes")


def token_axis(field: str) -> int | None:
    """Return the axis of a field's tokens, counted from the last; ``None`` for values of whole rows.

    >>> token_axis("target_tokens"), token_axis("attention_mask"), token_axis("continues")
    (-1, -2, None)
    """
    if field not in Batch._fields or field in _OF_ROWS:
        return None
    return -2 if field == "attention_mask" else -1


def bucket_length(needed: int, limit: int, *, shortest: int = 32) -> int:
    """Return the shortest of ``limit`` and its halves, down to ``shortest``, that holds ``needed`` tokens.

    A program is compiled for each length, so there should be few. More tokens than ``limit`` keep their number.
    """
    length = max(needed, limit)
    while length % 2 == 0 and length > shortest and length // 2 >= needed:
        length //= 2
    return length
