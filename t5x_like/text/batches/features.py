"""Rows of tokenised examples as a Batch: padding, segments, positions and shifted targets."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.batch import Batch


class Tokens(NamedTuple):
    """One tokenised example, end of sequence included, and the number of its task."""

    inputs: np.ndarray  # int32 [inputs]
    targets: np.ndarray  # int32 [targets]
    task: int = 0


class Stream(NamedTuple):
    """One side of a batch: tokens with the segment and the position of each."""

    tokens: np.ndarray  # int32 [B, L]
    segment_ids: np.ndarray  # int32 [B, L]: 0 padding, k the k-th example of the row
    positions: np.ndarray  # int32 [B, L], restart at 0 in each segment


def encoder_decoder_batch(
    rows: Sequence[Sequence[Tokens]], *, inputs_length: int, targets_length: int, packed: bool = True
) -> Batch:
    """Lays out rows of one or more examples each (of at most one if not ``packed``); an empty row is all
    padding.

    Tokens beyond a length are cut off. As in seqio, an unpacked row goes on to shift after its last target.
    """
    encoder = lay_out([[example.inputs for example in row] for row in rows], inputs_length)
    decoder = lay_out([[example.targets for example in row] for row in rows], targets_length)
    return Batch(
        encoder_input_tokens=encoder.tokens,
        encoder_segment_ids=encoder.segment_ids,
        encoder_positions=encoder.positions,
        decoder_input_tokens=shift_right(decoder.tokens, decoder.segment_ids if packed else None),
        decoder_segment_ids=decoder.segment_ids,
        decoder_positions=decoder.positions,
        target_tokens=decoder.tokens,
        loss_weights=(decoder.segment_ids > 0).astype(np.float32),
        task_ids=_task_ids(rows, decoder.segment_ids),
    )


def lay_out(rows: Sequence[Sequence[np.ndarray]], length: int) -> Stream:
    """Sequences one after the other in each row, then padding. Id 0 is padding wherever it stands."""
    tokens, segment_ids, positions = (np.zeros((len(rows), length), np.int32) for _ in range(3))
    count = np.arange(length, dtype=np.int32)
    for row, sequences in enumerate(rows):
        start = 0
        for segment, sequence in enumerate(sequences, start=1):
            end = min(start + len(sequence), length)
            tokens[row, start:end] = sequence[: end - start]
            segment_ids[row, start:end] = segment
            positions[row, start:end] = count[: end - start]
            start = end
    segment_ids *= tokens != 0
    return Stream(tokens, segment_ids, positions)


def shift_right(targets: np.ndarray, segment_ids: np.ndarray | None = None) -> np.ndarray:
    """What the decoder has read when it writes each target: the one before, and 0 at the start of a
    segment."""
    shifted = np.zeros_like(targets)
    shifted[..., 1:] = targets[..., :-1]
    if segment_ids is not None:
        shifted[..., 1:] *= segment_ids[..., 1:] == segment_ids[..., :-1]
        shifted *= segment_ids > 0
    return shifted


def _task_ids(rows: Sequence[Sequence[Tokens]], segment_ids: np.ndarray) -> np.ndarray:
    most = max((len(row) for row in rows), default=0)
    tasks = np.zeros((len(rows), most + 1), np.int32)
    for row, examples in enumerate(rows):
        tasks[row, 1 : len(examples) + 1] = [example.task for example in examples]
    return np.take_along_axis(tasks, segment_ids, axis=1)
