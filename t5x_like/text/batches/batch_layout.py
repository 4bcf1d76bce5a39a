"""Rows of examples as a Batch: padding, segments, positions and shifted targets."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from t5x_like.batch import FIELDS, Batch, DataField, DeclaredStreams, Level
from t5x_like.text.objectives.objective import Example, ExampleSpec, Lengths

# Streams by the fields of examples that hold them.
_BY_EXAMPLE_FIELD = {field.example_field: field for field in FIELDS.values()}

# Fields of examples that are laid out apart from the others.
_LAID_OUT = ("inputs", "positions", "weights")

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


class BatchLayout(NamedTuple):
    """Lays out rows of examples as batches.

    Attributes:
      spec: Properties of the examples. Its fields and declared streams are filled besides inputs and targets (for
        decoders, inputs too), so that all batches have the same streams.
      lengths: Lengths of both streams. Tokens beyond them are cut off.
      packed: Whether rows may have several examples.
      zero_is_padding: Whether id 0 is always padding, as in seqio; False if it is a word or an end, too.
    """

    spec: ExampleSpec
    lengths: Lengths
    packed: bool = True
    zero_is_padding: bool = True

    def batch(self, rows: Rows) -> Batch:
        """Return rows as a batch. As in seqio, decoder inputs of an unpacked row continue after its last target.

        With choices, or both orders of a pair, streams are [B, C, L].

        Args:
          rows: Examples of each row, at most one if they have choices; an empty row becomes padding.
        """
        count = self.spec.num_choices
        if not count:
            return self._of_rows(rows)
        choices = [
            [example.choices[choice]._replace(task=example.task) for example in row]
            for row in rows
            for choice in range(count)
        ]
        alone = self._replace(spec=self._spec_of(lambda level: level != "example"), packed=False)
        batch = alone._of_rows(choices).map(
            lambda _, stream: stream.reshape(len(rows), count, *stream.shape[1:])
        )
        return self._replace(spec=self._spec_of(lambda level: level == "example")).with_values(batch, rows)

    def _spec_of(self, keeps: Callable[[Level], bool]) -> ExampleSpec:
        """Return the properties with the streams of some levels only."""
        fields = [name for name in self.spec.fields if keeps(_level_of(name))]
        streams = [field for field in self.spec.streams if keeps(field.level)]
        return self.spec._replace(fields=tuple(fields), streams=tuple(streams))

    def _of_rows(self, rows: Rows) -> Batch:
        fields, layout, lengths = self.spec.fields, self.spec.layout, self.lengths
        batch = Batch()
        if layout != "decoder":
            inputs = [[example.inputs for example in row] for row in rows]
            encoder = lay_out(inputs, lengths.inputs, zero_is_padding=self.zero_is_padding)
            batch = batch._replace(**_named(encoder, "encoder", "encoder_input_tokens"))
        if layout == "encoder":
            targets = _token_field(rows, lengths.inputs, lambda example: example.targets)
            stream, batch = encoder, batch._replace(target_tokens=targets)
        else:
            targets = [[example.targets for example in row] for row in rows]
            stream = lay_out(targets, lengths.targets, zero_is_padding=self.zero_is_padding)
            batch = batch._replace(**_named(stream, "decoder", "target_tokens"))
            if layout == "decoder" and "inputs" in fields:
                read = _token_field(rows, lengths.targets, _read_tokens)
            else:
                read = shift_right(stream.tokens, stream.segment_ids if self.packed else None)
            batch = batch._replace(decoder_input_tokens=read)
        length = stream.tokens.shape[1]
        if "positions" in fields:
            side = "encoder" if layout == "encoder" else "decoder"
            batch = batch._replace(**{f"{side}_positions": _token_field(rows, length, _positions)})
        weights = (stream.segment_ids > 0).astype(np.float32)
        if "weights" in fields:
            weights *= _token_field(rows, length, _weights, dtype="float32")
        batch = batch._replace(loss_weights=weights, task_ids=_task_ids(rows, stream.segment_ids))
        return self.with_values(batch, rows)

    def with_values(self, batch: Batch, rows: Rows) -> Batch:
        """Return a batch with the further fields and the declared streams of its examples.

        Args:
          batch: Batch of token streams.
          rows: Examples of each row.
        """
        length = batch.target_tokens.shape[-1]
        known = [_BY_EXAMPLE_FIELD[name] for name in self.spec.fields if name not in _LAID_OUT]
        batch = batch._replace(**{field.name: self._values(field, rows, length) for field in known})
        if not self.spec.streams:
            return batch
        declared = {
            level: dict(streams) for level, streams in (batch.declared or DeclaredStreams())._asdict().items()
        }
        for field in self.spec.streams:
            declared[field.level][field.name] = self._values(field, rows, length)
        return batch._replace(declared=DeclaredStreams(**declared))

    def _values(self, field: DataField, rows: Rows, length: int) -> np.ndarray:
        """Return the values of a field: of all tokens, or of the first example of each row."""
        if field.level == "token":
            value_of = partial(Example.value_of, field=field)
            return _token_field(rows, length, value_of, dtype=field.dtype, padding=field.padding)
        if field.max_length is not None:
            return _sequences([row[0].value_of(field) if row else None for row in rows], field)
        num_outputs = self.spec.head[1] if self.spec.head else 0
        width = num_outputs if field.width == "outputs" else field.width
        padding = field.padding if width is None else np.full(width, field.padding)
        values = [row[0].value_of(field) if row else None for row in rows]
        return np.array([padding if value is None else value for value in values], field.dtype)


def lay_out(
    rows: Sequence[Sequence[np.ndarray | None]], length: int, *, zero_is_padding: bool = True
) -> TokenStream:
    """Concatenate the sequences of each row, and pad with 0.

    Args:
      rows: Sequences of each row, int32 [L].
      length: Length of the stream.
      zero_is_padding: Whether id 0 is always padding.
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


def _level_of(example_field: str) -> Level:
    return "token" if example_field in _LAID_OUT else _BY_EXAMPLE_FIELD[example_field].level


def _token_field(
    rows: Rows,
    length: int,
    value_of: Callable[[Example], np.ndarray | None],
    *,
    dtype: str = "int32",
    padding: float = 0,
) -> np.ndarray:
    """Lay out a per-token field of all examples [B, L]; missing values are padding."""
    values = np.full((len(rows), length), padding, dtype)
    for index, row in enumerate(rows):
        start = 0
        for example in row:
            end = min(start + _length(example), length)
            value = value_of(example)
            if value is not None:
                values[index, start:end] = value[: end - start]
            start = end
    return values


def _sequences(values: Sequence[np.ndarray | None], field: DataField) -> np.ndarray:
    """Return sequences of values, [B, L] or [B, L, width], padded to the longest that the field may have."""
    shape = [each for each in (len(values), field.max_length, field.width) if isinstance(each, int)]
    padded = np.full(shape, field.padding, field.dtype)
    for row, value in zip(padded, values, strict=True):
        if value is not None:
            row[: len(value)] = value
    return padded


def _weights(example: Example) -> np.ndarray:
    return np.ones(_length(example), np.float32) if example.weights is None else example.weights


def _read_tokens(example: Example) -> np.ndarray | None:
    if example.inputs is None and example.targets is not None:
        return shift_right(example.targets)
    return example.inputs


def _positions(example: Example) -> np.ndarray:
    return np.arange(_length(example), dtype=np.int32) if example.positions is None else example.positions


def _length(example: Example) -> int:
    """Return the length of the targets' stream."""
    stream = example.inputs if example.targets is None else example.targets
    return 0 if stream is None else len(stream)


def _task_ids(rows: Rows, segment_ids: np.ndarray) -> np.ndarray:
    most = max((len(row) for row in rows), default=0)
    tasks = np.zeros((len(rows), most + 1), np.int32)
    for index, row in enumerate(rows):
        tasks[index, 1 : len(row) + 1] = [example.task for example in row]
    return np.take_along_axis(tasks, segment_ids, axis=1)
