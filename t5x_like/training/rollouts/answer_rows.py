"""Rows of prompts, and the same rows with other answers, in whatever layout the loader has given them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.batch import Batch
from t5x_like.text.batches.batch_layout import SHIFTED_IN

# Stream of rows: positions of an answer's tokens, int32 [B, A], which alone need logits.
ANSWER_POSITIONS = "answer_positions"


class PromptRows(NamedTuple):
    """Prompts of a batch, of which each row is one example.

    Attributes:
      ids: Ids that the model reads before it answers: the encoder's stream, or a decoder's up to the answer.
      targets: Ids of the answers that the rows have, with their end; without any for prompts alone.
      starts: Position of each answer's first token in the decoder's stream.
    """

    ids: list[np.ndarray]
    targets: list[np.ndarray]
    starts: np.ndarray


def prompts_of(batch: Batch) -> PromptRows:
    """Return the prompts of a batch; a row without a target, which fills up a batch, has an empty prompt.

    A conversation's last answer is the one to write anew.

    Args:
      batch: Rows [B, L] of an encoder-decoder or a decoder, as NumPy arrays.
    """
    weighted = batch.loss_weights > 0
    # The last run of targets begins after the last position without one before it.
    length = weighted.shape[1]
    end = length - np.argmax(weighted[:, ::-1], axis=1)
    positions = np.arange(length)
    gaps = ~weighted & (positions < end[:, None])
    starts = np.where(gaps.any(axis=1), length - np.argmax(gaps[:, ::-1], axis=1), 0)
    targets = [row[start:stop] for row, start, stop in zip(batch.target_tokens, starts, end, strict=True)]
    if batch.encoder_input_tokens is not None:
        ids = [
            row[real > 0]
            for row, real in zip(batch.encoder_input_tokens, batch.encoder_segment_ids, strict=True)
        ]
    else:
        ids = [row[: start + 1] for row, start in zip(batch.decoder_input_tokens, starts, strict=True)]
    is_row = weighted.any(axis=1)
    nothing = np.zeros(0, np.int32)
    return PromptRows(
        [each if real else nothing for each, real in zip(ids, is_row, strict=True)],
        [each if real else nothing for each, real in zip(targets, is_row, strict=True)],
        starts,
    )


def repeat_rows(batch: Batch, count: int) -> Batch:
    """Return each row ``count`` times in a row.

    Args:
      batch: The batch.
      count: Number of copies.
    """
    return batch.map(lambda _, stream: np.repeat(stream, count, axis=0))


def with_answers(batch: Batch, starts: np.ndarray, answers: Sequence[Sequence[int]]) -> Batch:
    """Return rows with other answers: their inputs, targets, weights and positions after the prompt are replaced.

    Args:
      batch: Rows of prompts [B, L], as NumPy arrays.
      starts: Position of each answer's first token.
      answers: Ids of the answers with their ends. What exceeds a row is cut off.
    """
    rows = batch.map(lambda _, stream: np.array(stream))
    length = rows.target_tokens.shape[1]
    for row, (start, answer) in enumerate(zip(starts.tolist(), answers, strict=True)):
        ids = np.asarray(answer, np.int32)[: length - start]
        stop = start + len(ids)
        rows.loss_weights[row] = 0  # earlier answers of a conversation are part of the prompt
        rows.target_tokens[row, start:] = 0
        rows.target_tokens[row, start:stop] = ids
        rows.loss_weights[row, start:stop] = 1.0
        read = rows.decoder_input_tokens
        read[row, start + 1 :] = 0
        read[row, start + 1 : stop] = ids[:-1]
        if start == 0:
            read[row, 0] = SHIFTED_IN
        for stream, values in (
            (rows.decoder_segment_ids, np.ones(len(ids))),
            (rows.decoder_positions, np.arange(start, stop)),
            (rows.prefix, np.zeros(len(ids))),
        ):
            if stream is not None:
                stream[row, start + 1 :] = 0
                stream[row, start + 1 : stop] = values[1:]
        if rows.task_ids is not None:
            rows.task_ids[row] = rows.task_ids[row, 0]
    return rows
