"""The contract between words and scores: what ``text/`` promises and ``model/`` expects."""

from typing import Any, NamedTuple

Array = Any  # numpy.ndarray from text/, jax.Array on the mesh, None if absent: this file imports neither


class Batch(NamedTuple):
    """One batch of token ids. A plain tuple, hence a JAX pytree; absent streams are ``None``.

    Encoders read the encoder's stream, decoders the decoder's, encoder-decoders both; targets belong to the decoder's
    positions where there is a decoder, else to the encoder's.

    Segment ids say what is real: 0 is padding, ``k`` the k-th example packed into the row. Without them every
    position of the stream is real and each row is one example. Without positions they count from 0 in each row.

    Where one of C choices is right, streams are [B, C, L] and labels [B].
    """

    encoder_input_tokens: Array = None  # int32 [B, M]
    encoder_segment_ids: Array = None  # int32 [B, M]
    encoder_positions: Array = None  # int32 [B, M], restart at 0 in each segment
    decoder_input_tokens: Array = None  # int32 [B, L], targets shifted right inside each segment
    decoder_segment_ids: Array = None  # int32 [B, L]
    decoder_positions: Array = None  # int32 [B, L]
    target_tokens: Array = None  # int32 [B, L]
    loss_weights: Array = None  # float32 [B, L], 0 where nothing is to be learned
    task_ids: Array = None  # int32 [B, L], which task of the mixture each target belongs to
    # What some models read besides.
    token_types: Array = None  # int32 [B, L], sentence A or B (BERT)
    task_types: Array = None  # int32 [B, L], which pretraining task (ERNIE 2.0)
    block_positions: Array = None  # int32 [B, L], inside a masked span, from 1; 0 outside (GLM)
    prefix: Array = (
        None  # int32 [B, L], 1 where a decoder may be looked at from before (prefix language model)
    )
    attention_mask: Array = None  # bool [B, L, M], who may look at whom, besides what segments forbid (UniLM)
    # int32 [B, L], the order of prediction: a token looks at those of lower or its own rank; 0 is seen by all. They say
    # which way encoders and decoders look (UniLM's four, prefixes), and in which order XLNet predicts.
    ranks: Array = None
    sequence_labels: Array = None  # int32 [B], of whole sequences: next sentence, class
    # int32 [B], 1 where the row goes on where this row of the batch before ended, 0 where it starts (Transformer-XL).
    continues: Array = None
    sequence_values: Array = None  # float32 [B], numbers to be told of whole sequences; NaN where unlabelled
    sequence_spans: Array = (
        None  # int32 [B, 2], first and last token of an answer; 0 and 0 for none, -1 unlabelled
    )


def bucket_length(needed: int, limit: int, *, shortest: int = 32) -> int:
    """Returns the shortest of ``limit`` and its halves, down to ``shortest``, that holds ``needed`` tokens.

    A program is compiled for each length, so there should be few of them. More tokens than ``limit`` keep their number.
    """
    length = max(needed, limit)
    while length % 2 == 0 and length > shortest and length // 2 >= needed:
        length //= 2
    return length
