"""From planned examples to rows: the part of loading that takes time, and that workers do."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.batch import Batch
from t5x_like.text.batches.batch_layout import make_batch, make_batch_of_choices
from t5x_like.text.batches.buckets import like_lengths_together
from t5x_like.text.batches.example_sources import ExampleSource
from t5x_like.text.batches.head_source import HeadSource
from t5x_like.text.batches.order import key_of
from t5x_like.text.batches.planner import PlannedExample
from t5x_like.text.objectives.objective import Example, ExampleSpec, Layout, Lengths, lengths_of

# Which limits count: of the encoder's stream, of the decoder's.
_SIDES: dict[Layout, list[int]] = {"encoder": [0], "decoder": [1], "encoder_decoder": [0, 1]}


class RowMaker(NamedTuple):
    """Makes examples, packs them and lays them out. What it gives depends on what it is given alone."""

    sources: Sequence[ExampleSource]
    lengths: Lengths
    spec: ExampleSpec
    pack: bool
    zero_is_padding: bool

    def __call__(self, planned: Sequence[PlannedExample]) -> Batch:
        """As many rows as the examples take."""
        examples = self._examples(planned)
        numbers = [[number] for number in range(len(examples))]
        if self.pack:
            sizes = lengths_of(examples)
            sides = _SIDES[self.spec.layout]
            numbers = pack_rows(sizes[:, sides], [self.lengths[side] for side in sides])
        return self.lay_out([[examples[number] for number in row] for row in numbers])

    def lay_out(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """Rows of examples as a batch."""
        if self.spec.num_choices:
            return make_batch_of_choices(
                rows,
                self.spec.num_choices,
                lengths=self.lengths,
                fields=self.spec.fields,
                zero_is_padding=self.zero_is_padding,
            )
        return make_batch(
            rows,
            lengths=self.lengths,
            layout=self.spec.layout,
            fields=self.spec.fields,
            packed=self.pack,
            zero_is_padding=self.zero_is_padding,
        )

    def grouped(
        self, planned: Sequence[PlannedExample], batch_size: int, key: tuple[object, ...]
    ) -> list[PlannedExample]:
        """Rows of like length together, drawn by ``key``; an epoch of the only task before the next one."""
        found: list[PlannedExample] = []
        epochs = sorted({each.epoch for each in planned}) if len(self.sources) == 1 else [None]
        for epoch in epochs:
            rows = [each for each in planned if epoch in (None, each.epoch)]
            sizes = [self._size(each) for each in rows]
            order = like_lengths_together(sizes, batch_size, key_of(*key, epoch))
            found += [rows[number] for number in order]
        return found

    def _size(self, planned: PlannedExample) -> int:
        """How long the row of an encoder's head is, before it is made."""
        source = self.sources[planned.task]
        assert isinstance(source, HeadSource)
        return int(source.sizes(planned.epoch, [planned.position])[0])

    def release(self, planned: Sequence[PlannedExample]) -> None:
        """Lets sources forget these examples and all before them."""
        last = {example.task: (example.epoch, example.position + 1) for example in planned}
        for task, place in last.items():
            self.sources[task].release(*place)

    def _examples(self, planned: Sequence[PlannedExample]) -> list[Example]:
        """Makes examples, those of one task and epoch together."""
        numbers: dict[tuple[int, int], list[int]] = {}
        for number, example in enumerate(planned):
            numbers.setdefault((example.task, example.epoch), []).append(number)
        examples = [Example()] * len(planned)
        for (task, epoch), of_task in numbers.items():
            made = self.sources[task].examples(epoch, [planned[number].position for number in of_task])
            for number, example in zip(of_task, made, strict=True):
                examples[number] = example._replace(task=task) if task else example
        return examples


def join_rows(parts: Sequence[Batch]) -> Batch:
    """Rows of several batches with the same streams, in order."""
    if len(parts) == 1:
        return parts[0]
    streams = zip(*parts, strict=True)
    return Batch(*(None if stream[0] is None else np.concatenate(stream) for stream in streams))


def take_rows(batch: Batch, start: int, end: int) -> Batch:
    """Some rows of a batch."""
    return Batch(*(None if stream is None else stream[start:end] for stream in batch))


def pack_rows(lengths: np.ndarray, limits: Sequence[int], *, open_rows: int | None = None) -> list[list[int]]:
    """Numbers of examples, row by row: each goes to the first row that it fits into, else it opens a new one.

    ``lengths``, int64 [N, F], are those of each feature; one over its limit counts as the limit: it will be cut. With
    ``open_rows`` only that many newest rows are looked at; 1 is seqio's packing, in order, but for its flush after
    every ``max(limits)`` examples. With all rows it is first-fit (Johnson 1974,
    https://doi.org/10.1016/S0022-0000(74)80026-7): at most 1.7 times as many rows as there could be.
    """
    lengths = np.minimum(lengths, np.asarray(limits)[None])
    rows: list[list[int]] = []
    room = np.zeros((len(lengths), len(limits)), np.int64)
    smallest = lengths.min(axis=0, initial=max(limits, default=0))
    first = 0  # rows before it have no room for anything
    for number, needed in enumerate(lengths):
        if open_rows is not None:
            first = max(len(rows) - open_rows, 0)
        while first < len(rows) and (room[first] < smallest).any():
            first += 1
        fits = (room[first : len(rows)] >= needed).all(axis=1)
        row = first + int(fits.argmax()) if fits.any() else len(rows)
        if row == len(rows):
            rows.append([])
            room[row] = limits
        rows[row].append(number)
        room[row] -= needed
    return rows
