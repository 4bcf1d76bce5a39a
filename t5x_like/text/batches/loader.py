"""Batches of a task or mixture: the same ones after any restart, on any number of processes."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from t5x_like.batch import Batch
from t5x_like.text.batches.buckets import cut_to_bucket
from t5x_like.text.batches.data_fingerprint import compare, describe
from t5x_like.text.batches.open_tasks import open_tasks
from t5x_like.text.batches.planner import Place, Planned, Planner
from t5x_like.text.batches.row_maker import RowMaker, join_rows, take_rows
from t5x_like.text.batches.sources import Learn, Prompts
from t5x_like.text.batches.workers import Workers
from t5x_like.text.objectives.objective import Layout, Lengths


@dataclass(frozen=True, kw_only=True)
class LoaderConfig:
    """Which examples, and how they become batches.

    ``batch_size`` counts rows over all processes. Lengths are in tokens, end of sequence included, and longer
    examples are cut (T5's way: to one token less, then ended): ``inputs_length`` is that of the encoder's stream,
    ``targets_length`` of the decoder's; a model without one doesn't read its. ``pack`` puts several examples in a
    row where both sides fit, among a thousand that follow each other.

    ``layout`` says which streams the model reads; it is the objective's own, and of questions and answers an
    encoder-decoder's. "decoder" makes one stream of both: inputs (at most ``inputs_length`` of them), which nothing is
    learned of, then targets. All see the inputs, as in a prefix language model; with ``prompts="causal"`` they are read
    in order, as by models that have learned so (GPT). With ``learn="all"`` inputs are learned as targets are, as with
    seqio's ``loss_on_targets_only=False``.

    Training repeats for ever, every epoch in another order; ``repeat=False`` gives every example once (of a document
    over 65,536 tokens one such part, as in each epoch), the last batch filled up with empty rows, for measuring.

    Tokens come from ``cache``, a directory that ``t5x-like cache`` has written (``on_damage="quarantine"`` leaves out
    the examples that touch damaged bytes), or are made at the start: up to ``memory_tokens`` tokens a task are then
    held (2 or 4 bytes each). A larger task is read as a stream, which a restart replays from the start of its epoch.

    ``layout="encoder"`` of a benchmark, or of a task from files with labels, gives what an encoder's head reads:
    [CLS] A [SEP] B [SEP], unpacked, cut at ``inputs_length`` and only as long as a batch needs (where one process reads
    it all). With ``group_by_length`` examples of like length, of a thousand that follow each other, share batches.

    ``num_workers`` processes make batches; the batches are the same with any number of them.
    """

    mixture: str  # the name of a task or mixture
    batch_size: int
    inputs_length: int
    targets_length: int
    split: str = "train"
    pack: bool = True
    shuffle: bool = True
    repeat: bool = True
    seed: int = 0
    cache: str | None = None
    on_damage: Literal["fail", "quarantine"] = "fail"
    memory_tokens: int = 500_000_000
    num_workers: int = 0
    layout: Layout | None = None
    prompts: Prompts = "prefix"
    learn: Learn = "targets"
    group_by_length: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "memory_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("inputs_length", "targets_length"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2, a token and its end, got {getattr(self, name)}")
        for name, choices in (("prompts", Prompts), ("learn", Learn)):
            if getattr(self, name) not in get_args(choices):
                known = " or ".join(map(repr, get_args(choices)))
                raise ValueError(f"{name} must be {known}, got {getattr(self, name)!r}")
        if self.learn == "all" and self.layout != "decoder":
            raise ValueError(
                "learn='all' learns inputs too, which only a decoder's one stream of inputs and targets can; set "
                "layout='decoder', or leave learn out"
            )
        if self.layout is not None and self.layout not in get_args(Layout):
            known = ", ".join(map(repr, get_args(Layout)))
            raise ValueError(f"layout must be one of {known}, or None for a task's own; got {self.layout!r}")
        if self.group_by_length and self.layout != "encoder":
            raise ValueError(
                "group_by_length is for tasks of encoders' heads (layout='encoder'); others are packed"
            )
        if self.num_workers < 0:
            raise ValueError(f"num_workers must not be negative, got {self.num_workers}")


class _Window(NamedTuple):
    """Rows that were made together, or this process's of them."""

    place: Place
    num_rows: int
    rows: Batch
    numbers: np.ndarray  # int64, which of them ``rows`` are

    def take(self, start: int, end: int) -> Batch:
        """Rows by number; they must be there."""
        first, last = np.searchsorted(self.numbers, (start, end))
        return take_rows(self.rows, int(first), int(last))


class Loader:
    """Iterates over the rows of this process of every batch. Made by ``build_loader``."""

    def __init__(self, config: LoaderConfig, *, process_index: int, process_count: int) -> None:
        self.config = config
        self._own = _rows_of(config.batch_size, process_index, process_count)
        opened = open_tasks(config)
        self.task_names, self.vocabulary = opened.names, opened.vocabulary
        self._make = RowMaker(
            opened.sources,
            Lengths(config.inputs_length, config.targets_length),
            opened.traits,
            pack=config.pack and not opened.traits.fills_rows,
            zero_is_padding=opened.ids.pad == 0,
        )
        self._planner = Planner(opened.sources, opened.shares, seed=config.seed, repeat=config.repeat)
        self._identity = describe(config, opened, pack=self._make.pack)
        self.head = opened.traits.head
        self._cuts = self.head is not None and process_count == 1
        self._workers: Workers[list[Planned], Batch] | None = None
        self._num_filled = np.zeros(2, np.int64)  # real tokens and places, since the start
        self._place = self._planner.first
        self._start(row=0)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """This process's rows of the next batch.

        Raises:
          StopIteration: every example was given (``repeat=False``).
        """
        parts, num_rows = [], 0
        while num_rows < self.config.batch_size and (window := self._current()) is not None:
            taken = min(self.config.batch_size - num_rows, window.num_rows - self._row)
            # Of the rows from num_rows on, those that are this process's.
            start, end = (min(max(row - num_rows, 0), taken) for row in (self._own.start, self._own.stop))
            if end > start:
                parts.append(window.take(self._row + start, self._row + end))
            num_rows += taken
            self._row += taken
        if not num_rows:
            self.close()
            raise StopIteration
        num_missing = self._own.stop - self._own.start - sum(map(_num_rows, parts))
        if num_missing:
            parts.append(self._make.lay_out([[]] * num_missing))
        batch = join_rows(parts)
        batch = cut_to_bucket(batch) if self._cuts else batch
        self._num_filled += _count_filled(batch)
        return batch

    def state(self) -> dict[str, Any]:
        """The place after the last batch, in JSON's types."""
        place = self._place if self._window is None else self._window.place
        return {"place": place.as_json(self.task_names), "row": self._row, "data": dict(self._identity)}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes to a place: the next batch is the one that followed ``state()``, bit for bit.

        Where the rates of a mixture have changed, that is said, and the new ones count from the next thousand
        examples on. Where an objective has, that is said too: some texts of the epoch that was begun may then come
        again, or not at all.

        Raises:
          ValueError: the state belongs to other data.
        """
        compare(state["data"], self._identity)
        self._place = Place.from_json(state["place"], self.task_names)
        self._start(row=int(state["row"]))

    @property
    def share_filled(self) -> float:
        """Of all places in this process's batches so far, those that hold a token: how well rows are packed."""
        filled, places = self._num_filled.tolist()
        return filled / places if places else 0.0

    def close(self) -> None:
        """Ends the worker processes, if there are any."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def _start(self, *, row: int) -> None:
        """Nothing is read or made before the first batch is asked for."""
        self.close()
        self._row, self._window, self._windows = row, None, self._made_windows(self._place, row)

    def _current(self) -> _Window | None:
        """The window that holds the next row; ``None`` at the end of the only pass."""
        while self._window is None or self._row == self._window.num_rows:
            window = next(self._windows, None)
            if window is None:
                return None
            # The first one begins at a row that was asked for.
            self._row = self._row if self._window is None else 0
            self._window = window
        return self._window

    def _made_windows(self, place: Place, row: int) -> Iterator[_Window]:
        waiting: deque[tuple[Place, int, np.ndarray]] = deque()

        def wanted() -> Iterator[list[Planned]]:
            begun = -row  # of the window's first row, as a row of some batch
            for here, planned in self._planner.windows(place):
                if self.config.group_by_length:
                    key = self.config.seed, "groups", here.window
                    planned = self._make.grouped(planned, self.config.batch_size, key)
                numbers = np.arange(len(planned))
                if not self._make.pack:  # then it is known which rows are this process's
                    in_batch = (begun + numbers) % self.config.batch_size
                    numbers = numbers[(in_batch >= self._own.start) & (in_batch < self._own.stop)]
                begun += len(planned)
                waiting.append((here, len(planned), numbers))
                yield [planned[number] for number in numbers]

        for rows in self._made(wanted()):
            here, num_planned, numbers = waiting.popleft()
            if self._make.pack:
                yield _Window(here, _num_rows(rows), rows, np.arange(_num_rows(rows)))
            else:
                yield _Window(here, num_planned, rows, numbers)

    def _made(self, wanted: Iterator[list[Planned]]) -> Iterator[Batch]:
        if self.config.num_workers:
            self._workers = Workers(self._make, self.config.num_workers)
            for _, rows in self._workers.map(wanted):
                yield rows
            return
        for planned in wanted:
            yield self._make(planned)
            self._make.release(planned)


def build_loader(config: LoaderConfig, process_index: int = 0, process_count: int = 1) -> Loader:
    """Tokenises what ``config`` names and stands before its first batch.

    Process ``p`` of ``n`` gets rows ``p * batch_size / n`` up to ``(p + 1) * batch_size / n`` of every batch;
    the batches of all together do not depend on ``n``.

    Raises:
      ValueError: unknown names, bad rows, lengths or sizes that do not fit.
    """
    return Loader(config, process_index=process_index, process_count=process_count)


def _rows_of(batch_size: int, process_index: int, process_count: int) -> slice:
    if batch_size % process_count:
        raise ValueError(f"batch_size of {batch_size} cannot be shared evenly by {process_count} processes")
    share = batch_size // process_count
    return slice(process_index * share, (process_index + 1) * share)


def _num_rows(batch: Batch) -> int:
    return len(batch.loss_weights)


def _count_filled(batch: Batch) -> np.ndarray:
    streams = [ids for ids in (batch.encoder_segment_ids, batch.decoder_segment_ids) if ids is not None]
    return np.array([sum(np.count_nonzero(ids) for ids in streams), sum(ids.size for ids in streams)])
