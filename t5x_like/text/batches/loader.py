"""Batches of a task or mixture: the same ones after any restart, on any number of processes."""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from t5x_like.batch import Batch
from t5x_like.io.worker_pool import WorkerPool
from t5x_like.text.batches.buckets import cut_to_bucket
from t5x_like.text.batches.data_fingerprint import compare, describe
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.open_tasks import open_tasks
from t5x_like.text.batches.planner import LoaderPosition, PlannedExample, Planner
from t5x_like.text.batches.row_maker import RowMaker, join_rows, take_rows
from t5x_like.text.objectives.objective import Lengths


class _Window(NamedTuple):
    """Rows that were made together, or this process's of them."""

    place: LoaderPosition
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
            opened.spec,
            pack=config.pack and not opened.spec.fills_rows,
            zero_is_padding=opened.ids.pad == 0,
        )
        self._planner = Planner(opened.sources, opened.shares, seed=config.seed, repeat=config.repeat)
        self._identity = describe(config, opened, pack=self._make.pack)
        self.head = opened.spec.head
        self._cuts = self.head is not None and process_count == 1
        self._workers: WorkerPool[list[PlannedExample], Batch] | None = None
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
        self._place = LoaderPosition.from_json(state["place"], self.task_names)
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

    def _made_windows(self, place: LoaderPosition, row: int) -> Iterator[_Window]:
        waiting: deque[tuple[LoaderPosition, int, np.ndarray]] = deque()

        def wanted() -> Iterator[list[PlannedExample]]:
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

    def _made(self, wanted: Iterator[list[PlannedExample]]) -> Iterator[Batch]:
        if self.config.num_workers:
            self._workers = WorkerPool(
                self._make, self.config.num_workers, owner="the loader", flag="num_workers"
            )
            for _, rows in self._workers.in_order(wanted):
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
