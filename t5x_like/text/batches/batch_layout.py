"""Rows of examples as a Batch: padding, segments, positions and shifted targets."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.batch import Batch
from t5x_like.text.objectives.objective import Example, Layout, Lengths

# What some models read beside the targets' stream, by the names of Example and of Batch.
_BESIDE = ("token_types", "block_positions", "prefix", "ranks")


SHIFTED_IN = 0  # what a decoder reads before it writes its first token


Rows = Sequence[Sequence[Example]]


class TokenStream(NamedTuple):
    """One side of a batch: tokens with the segment and the position of each."""

    tokens: np.ndarray  # int32 [B, L]
    segment_ids: np.ndarray  # int32 [B, L]: 0 padding, k the k-th example of the row
    positions: np.ndarray  # int32 [B, L], restart at 0 in each segment


def make_batch(
    rows: Rows,
    *,
    lengths: Lengths,
    layout: Layout,
    fields: Collection[str] = (),
    packed: bool = True,
    zero_is_padding: bool = True,
) -> Batch:
    """Lays out rows of one or more examples each (of at most one if not ``packed``); an empty row is all padding.

    ``fields`` are those of ``Example`` that examples have besides inputs and targets (of a decoder's, inputs too): a
    batch has the same streams whatever is in it.

    Tokens beyond a length are cut off. As in seqio, an unpacked row goes on to shift after its last target, and id 0
    is padding wherever it stands, unless ``zero_is_padding`` says that the vocabulary has a word there.
    """
    streams: dict[str, Any] = {}
    if layout != "decoder":
        inputs = [[example.inputs for example in row] for row in rows]
        encoder = lay_out(inputs, lengths.inputs, zero_is_padding=zero_is_padding)
        streams |= _named(encoder, "encoder", "encoder_input_tokens")
    if layout == "encoder":
        streams["target_tokens"] = _beside(rows, "targets", lengths.inputs)
        return Batch(**streams, **_of_targets(rows, encoder, fields))
    targets = [[example.targets for example in row] for row in rows]
    decoder = lay_out(targets, lengths.targets, zero_is_padding=zero_is_padding)
    streams |= _named(decoder, "decoder", "target_tokens")
    if layout == "decoder" and "inputs" in fields:
        streams["decoder_input_tokens"] = _beside(rows, "inputs", lengths.targets, absent=_shifted)
    else:
        in_segments = decoder.segment_ids if packed else None
        streams["decoder_input_tokens"] = shift_right(decoder.tokens, in_segments)
    if "positions" in fields:
        streams["decoder_positions"] = _beside(rows, "positions", lengths.targets, absent=_counted)
    return Batch(**streams, **_of_targets(rows, decoder, fields))


def make_batch_of_choices(
    rows: Rows, num_choices: int, *, lengths: Lengths, fields: Collection[str], zero_is_padding: bool = True
) -> Batch:
    """Rows of at most one example each, of which every choice is a row of an encoder: streams are [B, C, L]."""
    choices = [
        [example.choices[choice]._replace(task=example.task) for example in row]
        for row in rows
        for choice in range(num_choices)
    ]
    of_choices = [field for field in fields if field != "label"]
    batch = make_batch(
        choices,
        lengths=lengths,
        layout="encoder",
        fields=of_choices,
        packed=False,
        zero_is_padding=zero_is_padding,
    )
    streams = (
        None if stream is None else stream.reshape(len(rows), num_choices, *stream.shape[1:])
        for stream in batch
    )
    labels = [row[0].label if row else -1 for row in rows]
    return Batch(*streams)._replace(sequence_labels=np.array(labels, np.int32))


def lay_out(
    rows: Sequence[Sequence[np.ndarray | None]], length: int, *, zero_is_padding: bool = True
) -> TokenStream:
    """Sequences one after the other in each row, then padding, which is 0."""
    tokens, segment_ids, positions = (np.zeros((len(rows), length), np.int32) for _ in range(3))
    count = np.arange(length, dtype=np.int32)
    for row, sequences in enumerate(rows):
        start = 0
        for segment, sequence in enumerate(sequences, start=1):
            assert sequence is not None, "an example lacks a stream of its layout"
            end = min(start + len(sequence), length)
            tokens[row, start:end] = sequence[: end - start]
            segment_ids[row, start:end] = segment
            positions[row, start:end] = count[: end - start]
            start = end
    if zero_is_padding:
        segment_ids *= tokens != 0
    return TokenStream(tokens, segment_ids, positions)


def shift_right(targets: np.ndarray, segment_ids: np.ndarray | None = None) -> np.ndarray:
    """What the decoder has read when it writes each target: the one before, and 0 at the start of a segment."""
    shifted = np.zeros_like(targets)
    shifted[..., 1:] = targets[..., :-1]
    if segment_ids is not None:
        shifted[..., 1:] *= segment_ids[..., 1:] == segment_ids[..., :-1]
        shifted *= segment_ids > 0
    return shifted


def _named(stream: TokenStream, side: str, tokens: str) -> dict[str, np.ndarray]:
    return {
        tokens: stream.tokens,
        f"{side}_segment_ids": stream.segment_ids,
        f"{side}_positions": stream.positions,
    }


def _of_targets(rows: Rows, stream: TokenStream, fields: Collection[str]) -> dict[str, np.ndarray]:
    """Weights, tasks and what some models read besides."""
    length = stream.tokens.shape[1]
    beside = {name: _beside(rows, name, length) for name in _BESIDE if name in fields}
    beside["loss_weights"] = (stream.segment_ids > 0).astype(np.float32)
    if "weights" in fields:
        beside["loss_weights"] *= _beside(rows, "weights", length, np.float32, absent=_all)
    if "label" in fields:
        labels = [row[0].label if row else -1 for row in rows]
        beside["sequence_labels"] = np.array(labels, np.int32)
    if "value" in fields:
        values = [row[0].value if row else np.nan for row in rows]
        beside["sequence_values"] = np.array(values, np.float32)
    if "span" in fields:
        spans = [row[0].span if row else (-1, -1) for row in rows]
        beside["sequence_spans"] = np.array(spans, np.int32).reshape(-1, 2)
    if "continues" in fields:
        follows = [row[0].continues if row else 0 for row in rows]
        beside["continues"] = np.array(follows, np.int32)
    return beside | {"task_ids": _task_ids(rows, stream.segment_ids)}


def _beside(
    rows: Rows,
    name: str,
    length: int,
    dtype: Any = np.int32,
    *,
    absent: Callable[[Example], np.ndarray | None] | None = None,
) -> np.ndarray:
    """One field of all examples [B, L], laid out like their stream; 0, or ``absent``, of those that don't have it."""
    values = np.zeros((len(rows), length), dtype)
    for number, row in enumerate(rows):
        start = 0
        for example in row:
            end = min(start + _length(example), length)
            given = getattr(example, name)
            if given is None and absent is not None:
                given = absent(example)
            if given is not None:
                values[number, start:end] = given[: end - start]
            start = end
    return values


def _all(example: Example) -> np.ndarray:
    return np.ones(_length(example), np.float32)


def _shifted(example: Example) -> np.ndarray | None:
    return None if example.targets is None else shift_right(example.targets)


def _counted(example: Example) -> np.ndarray:
    return np.arange(_length(example), dtype=np.int32)


def _length(example: Example) -> int:
    """Of the targets' stream."""
    stream = example.inputs if example.targets is None else example.targets
    return 0 if stream is None else len(stream)


def _task_ids(rows: Rows, segment_ids: np.ndarray) -> np.ndarray:
    most = max((len(row) for row in rows), default=0)
    tasks = np.zeros((len(rows), most + 1), np.int32)
    for number, row in enumerate(rows):
        tasks[number, 1 : len(row) + 1] = [example.task for example in row]
    return np.take_along_axis(tasks, segment_ids, axis=1)
