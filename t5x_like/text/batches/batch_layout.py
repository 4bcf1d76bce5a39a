"""Rows of examples as a Batch: padding, segments, positions and shifted targets."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.batch import Batch
from t5x_like.text.objectives.objective import Example, Layout, Lengths

# Per-token fields that some models read in addition, named alike in Example and Batch.
_EXTRA_FIELDS = ("token_types", "block_positions", "prefix", "ranks")

# Labels of whole sequences, by field of Example.
_LABELS = {
    "label": "sequence_labels",
    "value": "sequence_values",
    "span": "sequence_spans",
    "classes": "sequence_classes",
}

SHIFTED_IN = 0  # id that a decoder reads before its first target

Rows = Sequence[Sequence[Example]]


class TokenStream(NamedTuple):
    """Token stream of one side of a batch.

    Attributes:
      tokens: int32 [B, L].
      segment_ids: int32 [B, L], 0 for padding and k for the k-th example of the row.
      positions: int32 [B, L], counted from 0 in each segment.
    """

    tokens: np.ndarray
    segment_ids: np.ndarray
    positions: np.ndarray


def make_batch(
    rows: Rows,
    *,
    lengths: Lengths,
    layout: Layout,
    fields: Collection[str] = (),
    packed: bool = True,
    zero_is_padding: bool = True,
    num_classes: int = 0,
) -> Batch:
    """Lay out rows of examples as a batch.

    Tokens beyond a length are cut off. As in seqio, decoder inputs of an unpacked row continue after its last target.

    Args:
      rows: Examples of each row; an empty row becomes padding.
      lengths: Lengths of both streams.
      layout: Streams of the batch.
      fields: Fields of ``Example`` that are filled besides inputs and targets (for decoders, inputs too), so that all
        batches have the same streams.
      packed: Whether rows may have several examples.
      zero_is_padding: Whether id 0 is always padding, as in seqio; False if the vocabulary has a word there.
      num_classes: Number of classes C, if ``fields`` has "classes".
    """
    streams: dict[str, Any] = {}
    if layout != "decoder":
        inputs = [[example.inputs for example in row] for row in rows]
        encoder = lay_out(inputs, lengths.inputs, zero_is_padding=zero_is_padding)
        streams |= _named(encoder, "encoder", "encoder_input_tokens")
    if layout == "encoder":
        streams["target_tokens"] = _token_field(rows, "targets", lengths.inputs)
        if "positions" in fields:
            streams["encoder_positions"] = _token_field(rows, "positions", lengths.inputs, absent=_counted)
        return Batch(**streams, **_target_fields(rows, encoder, fields, num_classes))
    targets = [[example.targets for example in row] for row in rows]
    decoder = lay_out(targets, lengths.targets, zero_is_padding=zero_is_padding)
    streams |= _named(decoder, "decoder", "target_tokens")
    if layout == "decoder" and "inputs" in fields:
        streams["decoder_input_tokens"] = _token_field(rows, "inputs", lengths.targets, absent=_shifted)
    else:
        in_segments = decoder.segment_ids if packed else None
        streams["decoder_input_tokens"] = shift_right(decoder.tokens, in_segments)
    if "positions" in fields:
        streams["decoder_positions"] = _token_field(rows, "positions", lengths.targets, absent=_counted)
    return Batch(**streams, **_target_fields(rows, decoder, fields, num_classes))


def make_batch_of_choices(
    rows: Rows,
    num_choices: int,
    *,
    lengths: Lengths,
    fields: Collection[str],
    zero_is_padding: bool = True,
    num_classes: int = 0,
) -> Batch:
    """Lay out examples of several rows: choices, or both orders of a pair. Streams are [B, C, L].

    Args:
      rows: Rows of at most one example each.
      num_choices: Number of rows C of each example.
      lengths: Lengths of both streams.
      fields: See ``make_batch``.
      zero_is_padding: See ``make_batch``.
      num_classes: Number of classes C, if ``fields`` has "classes"; 0 otherwise.
    """
    choices = [
        [example.choices[choice]._replace(task=example.task) for example in row]
        for row in rows
        for choice in range(num_choices)
    ]
    choice_fields = [field for field in fields if field not in _LABELS]
    batch = make_batch(
        choices,
        lengths=lengths,
        layout="encoder",
        fields=choice_fields,
        packed=False,
        zero_is_padding=zero_is_padding,
    )
    streams = (
        None if stream is None else stream.reshape(len(rows), num_choices, *stream.shape[1:])
        for stream in batch
    )
    return Batch(*streams)._replace(**_label_fields(rows, fields, num_classes))


def lay_out(
    rows: Sequence[Sequence[np.ndarray | None]], length: int, *, zero_is_padding: bool = True
) -> TokenStream:
    """Concatenate the sequences of each row, and pad with 0.

    Args:
      rows: Sequences of each row, int32 [L].
      length: Length of the stream.
      zero_is_padding: See ``make_batch``.
    """
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
    """Return decoder inputs: the previous target, and 0 at the start of a segment.

    Args:
      targets: Ids, int32 [..., L].
      segment_ids: Segments, int32 [..., L]; None for one sequence per row.
    """
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


def _target_fields(
    rows: Rows, stream: TokenStream, fields: Collection[str], num_classes: int
) -> dict[str, np.ndarray]:
    """Return loss weights, task ids and the extra fields that models read."""
    length = stream.tokens.shape[1]
    streams = {name: _token_field(rows, name, length) for name in _EXTRA_FIELDS if name in fields}
    streams["loss_weights"] = (stream.segment_ids > 0).astype(np.float32)
    if "weights" in fields:
        streams["loss_weights"] *= _token_field(rows, "weights", length, np.float32, absent=_all)
    if "continues" in fields:
        follows = [row[0].continues if row else 0 for row in rows]
        streams["continues"] = np.array(follows, np.int32)
    return (
        streams | _label_fields(rows, fields, num_classes) | {"task_ids": _task_ids(rows, stream.segment_ids)}
    )


def _label_fields(rows: Rows, fields: Collection[str], num_classes: int) -> dict[str, np.ndarray]:
    """Return the labels of whole sequences: of the first example of each row."""
    found = {}
    for name in _LABELS:
        if name in fields:
            padding = Example(classes=np.full(num_classes, -1, np.int32))
            values = [getattr(row[0] if row else padding, name) for row in rows]
            found[_LABELS[name]] = np.array(values, np.float32 if name == "value" else np.int32)
    return found


def _token_field(
    rows: Rows,
    name: str,
    length: int,
    dtype: Any = np.int32,
    *,
    absent: Callable[[Example], np.ndarray | None] | None = None,
) -> np.ndarray:
    """Lay out a per-token field of all examples [B, L]; missing values are 0, or given by ``absent``."""
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
    """Return the length of the targets' stream."""
    stream = example.inputs if example.targets is None else example.targets
    return 0 if stream is None else len(stream)


def _task_ids(rows: Rows, segment_ids: np.ndarray) -> np.ndarray:
    most = max((len(row) for row in rows), default=0)
    tasks = np.zeros((len(rows), most + 1), np.int32)
    for number, row in enumerate(rows):
        tasks[number, 1 : len(row) + 1] = [example.task for example in row]
    return np.take_along_axis(tasks, segment_ids, axis=1)
