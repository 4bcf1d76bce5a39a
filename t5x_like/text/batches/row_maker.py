"""Conversion of planned examples to batch rows: the expensive part of loading, run by workers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.batch import Batch, DataField, bucket_length, map_streams
from t5x_like.text.batches.batch_layout import BatchLayout
from t5x_like.text.batches.example_order import ExampleReference
from t5x_like.text.batches.example_sources import ExampleSource, SizedSource
from t5x_like.text.batches.order import key_of, permuted
from t5x_like.text.objectives.objective import Example, ExampleSpec, Layout, Lengths, lengths_of

# Streams whose limits count for packing: 0 the encoder's, 1 the decoder's.
_SIDES: dict[Layout, list[int]] = {"encoder": [0], "decoder": [1], "encoder_decoder": [0, 1]}


class RowMaker(NamedTuple):
    """Makes examples, packs them and lays them out, as a pure function of the planned examples.

    Attributes:
      sources: Examples of each task.
      lengths: Maximum lengths of both streams.
      spec: Properties of the examples.
      pack: Put several examples into a row.
      zero_is_padding: Whether id 0 is padding.
    """

    sources: Sequence[ExampleSource]
    lengths: Lengths
    spec: ExampleSpec
    pack: bool
    zero_is_padding: bool

    def __call__(self, planned: Sequence[ExampleReference]) -> Batch:
        """Return as many rows as the examples need."""
        examples = self._examples(planned)
        numbers = [[index] for index in range(len(examples))]
        if self.pack:
            sizes = lengths_of(examples)
            sides = _SIDES[self.spec.layout]
            numbers = pack_rows(sizes[:, sides], [self.lengths[side] for side in sides])
        return self.lay_out([[examples[index] for index in row] for row in numbers])

    def lay_out(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """Return rows of examples as a batch."""
        return BatchLayout(self.spec, self.lengths, self.pack, self.zero_is_padding).batch(rows)

    def grouped(
        self, planned: Sequence[ExampleReference], batch_size: int, key: tuple[object, ...]
    ) -> list[ExampleReference]:
        """Order examples in groups of similar length.

        Args:
          planned: Examples to order; of a single task, each epoch stays together.
          batch_size: Examples of a group.
          key: Random key of the order of the groups.
        """
        references: list[ExampleReference] = []
        epochs = sorted({each.epoch for each in planned}) if len(self.sources) == 1 else [None]
        for epoch in epochs:
            rows = [each for each in planned if epoch in (None, each.epoch)]
            sizes = [self._size(each) for each in rows]
            order = group_by_length(sizes, batch_size, key_of(*key, epoch))
            references += [rows[index] for index in order]
        return references

    def _size(self, planned: ExampleReference) -> int:
        source = self.sources[planned.task]
        assert isinstance(source, SizedSource), "checked by the loader"
        return int(source.sizes(planned.epoch, [planned.position])[0])

    def release(self, planned: Sequence[ExampleReference]) -> None:
        """Let sources free the memory of these examples and all before them."""
        last = {example.task: (example.epoch, example.position + 1) for example in planned}
        for task, place in last.items():
            self.sources[task].release(*place)

    def _examples(self, planned: Sequence[ExampleReference]) -> list[Example]:
        """Make examples, grouped by task and epoch."""
        numbers: dict[tuple[int, int], list[int]] = {}
        for index, example in enumerate(planned):
            numbers.setdefault((example.task, example.epoch), []).append(index)
        examples = [Example()] * len(planned)
        for (task, epoch), task_numbers in numbers.items():
            made = self.sources[task].examples(epoch, [planned[index].position for index in task_numbers])
            for index, example in zip(task_numbers, made, strict=True):
                examples[index] = example._replace(task=task) if task else example
        return examples


def join_rows(parts: Sequence[Batch]) -> Batch:
    """Concatenate the rows of batches with the same streams."""
    if len(parts) == 1:
        return parts[0]
    return map_streams(lambda _, *streams: np.concatenate(streams), *parts)


def take_rows(batch: Batch, start: int, end: int) -> Batch:
    """Return some rows of a batch.

    Args:
      batch: The batch.
      start: First row.
      end: Row after the last one.
    """
    return batch.map(lambda _, stream: stream[start:end])


def pack_rows(lengths: np.ndarray, limits: Sequence[int], *, open_rows: int | None = None) -> list[list[int]]:
    """Assign examples to rows by first fit.

    Each example goes into the first row with enough space, else into a new one. First fit needs at most 1.7 times the
    optimal number of rows (Johnson 1974, https://doi.org/10.1016/S0022-0000(74)80026-7).

    Args:
      lengths: Length of each feature of each example, int64 [N, F]; longer ones count as the limit, to which they will
        be cut.
      limits: Limit of each feature.
      open_rows: Number of newest rows to consider. 1 is seqio's packing, except for its flush after every
        ``max(limits)`` examples; None considers all.

    Returns:
      Indices of the examples of each row.
    """
    lengths = np.minimum(lengths, np.asarray(limits)[None])
    rows: list[list[int]] = []
    free = np.zeros((len(lengths), len(limits)), np.int64)
    smallest = lengths.min(axis=0, initial=max(limits, default=0))
    first = 0  # rows before it are full
    for index, needed in enumerate(lengths):
        if open_rows is not None:
            first = max(len(rows) - open_rows, 0)
        while first < len(rows) and (free[first] < smallest).any():
            first += 1
        fits = (free[first : len(rows)] >= needed).all(axis=1)
        row = first + int(fits.argmax()) if fits.any() else len(rows)
        if row == len(rows):
            rows.append([])
            free[row] = limits
        rows[row].append(index)
        free[row] -= needed
    return rows


def cut_to_bucket(batch: Batch, *, shortest: int = 16) -> Batch:
    """Remove padding columns of an encoder batch that the next shorter bucket doesn't need.

    Few distinct lengths mean few compiled programs.

    Args:
      batch: Encoder batch, with or without choices.
      shortest: Length of the shortest bucket.
    """
    limit = batch.encoder_segment_ids.shape[-1]
    longest = int((batch.encoder_segment_ids > 0).sum(axis=-1).max(initial=0))
    length = bucket_length(longest, limit, shortest=shortest)
    if length == limit:
        return batch
    return batch.map(lambda field, stream: stream[..., :length] if field.level == "token" else stream)


def cut_sequences(batch: Batch, fields: Sequence[DataField], *, shortest: int = 32) -> Batch:
    """Cut sequences with lengths of their own, such as waveforms, to the shortest bucket that holds all rows.

    Args:
      batch: Batch with declared streams.
      fields: Declarations of its streams.
      shortest: Length of the shortest bucket.
    """
    declared = batch.declared
    if declared is None:
        return batch
    buckets = {
        field.name: bucket_length(
            int(declared[field.length_stream].max(initial=0)), field.max_length, shortest=shortest
        )
        for field in fields
        if field.max_length is not None
    }
    return batch.map(
        lambda field, stream: stream[:, : buckets[field.name]] if field.name in buckets else stream
    )


def group_by_length(sizes: Sequence[int] | np.ndarray, batch_size: int, key: np.ndarray) -> np.ndarray:
    """Order examples so that groups of ``batch_size`` have similar lengths.

    Args:
      sizes: Length of each example [N].
      batch_size: Examples of a group; only the longest group may be smaller.
      key: Random key of the order of the groups.

    Returns:
      Indices, int64 [N].
    """
    by_size = np.argsort(np.asarray(sizes), kind="stable")
    num_groups = -(-len(by_size) // batch_size)
    whole = len(by_size) // batch_size
    drawn = permuted(np.arange(whole), whole, key) if whole else np.zeros(0, np.int64)
    groups = [
        by_size[group * batch_size : (group + 1) * batch_size]
        for group in (*drawn, *range(whole, num_groups))
    ]
    return np.concatenate(groups) if groups else by_size
