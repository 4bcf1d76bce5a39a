"""Deterministic batches of a task or mixture, identical after any restart and on any number of processes."""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from t5x_like.batch import Batch
from t5x_like.io.worker_pool import WorkerPool
from t5x_like.text import registry
from t5x_like.text.batches.data_fingerprint import compare, describe
from t5x_like.text.batches.example_order import ExampleOrder, ExampleReference, LoaderPosition
from t5x_like.text.batches.example_sources import OpenedTasks, SizedSource
from t5x_like.text.batches.labeled_source import LabeledSource
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.open_tasks import open_tasks, spec_of_tasks
from t5x_like.text.batches.pretraining_source import PretrainingSource
from t5x_like.text.batches.row_maker import (
    RowMaker,
    cut_sequences,
    cut_to_bucket,
    join_rows,
    take_rows,
)
from t5x_like.text.heads.input_format import num_input_ids
from t5x_like.text.objectives.objective import LabelLoss, Lengths
from t5x_like.text.tasks.task_set import LabelSpace, TaskSet

_SAME_EPOCHS = 0.01  # relative difference of tasks' rates from their sizes
_WINDOW_RECORDINGS = 128  # made together: 20 seconds of each are 164 MB


class _Window(NamedTuple):
    """Rows that were made together.

    Attributes:
      position: Position at which the window begins.
      num_rows: Rows of all processes.
      rows: Rows of this process, or of all if they were packed.
      numbers: Index of each row in the window, int64.
    """

    position: LoaderPosition
    num_rows: int
    rows: Batch
    numbers: np.ndarray

    def take(self, start: int, end: int) -> Batch:
        """Return rows ``start`` to ``end`` of the window, as far as they belong to this process."""
        first, last = np.searchsorted(self.numbers, (start, end))
        return take_rows(self.rows, int(first), int(last))


class Loader:
    """Iterator over this process's rows of every batch.

    Args:
      config: Batch size, lengths and order.
      tasks: Tasks of the mixture that ``config`` names.
      process_index: Index p of this process; it gets rows ``p * batch_size / n`` to ``(p + 1) * batch_size / n``.
      process_count: Number n of processes; the batches of all together don't depend on it.

    Attributes:
      config: Configuration.
      task_names: Names of the tasks of the mixture.
      vocabulary: Tokenizer of all tasks.
      head: Type of the head that reads the batches, and its number of outputs; None without a head.
      label_loss: Loss of the rows' labels; None without labels.
      streams: Streams that the tasks declare.
      num_rows_of_example: Rows that belong to one example: choices, or both orders of a pair.
      tasks: Tasks of the mixture.
      num_ids: Number of embeddings that the batches need; less than the vocabulary for heads, which read no sentinels.
    """

    def __init__(
        self, config: LoaderConfig, tasks: TaskSet, *, process_index: int = 0, process_count: int = 1
    ) -> None:
        self.config, self.tasks = config, tasks
        self._own = _rows_of(config.batch_size, process_index, process_count)
        # One process compares for all, as reading a large corpus takes minutes.
        opened = open_tasks(config, tasks, compare_files=process_index == 0)
        self.task_names, self.vocabulary = opened.names, opened.vocabulary
        self._make = RowMaker(
            opened.sources,
            Lengths(config.inputs_length, config.targets_length),
            opened.spec,
            pack=config.pack and not opened.spec.fills_rows,
            zero_is_padding=opened.ids.zero_is_padding,
        )
        self._sources, self._shares = opened.sources, opened.shares
        if config.alternate_tasks:
            _check_turns(config, opened, pack=self._make.pack)
        if config.group_by_length:
            _check_sizes(config, opened)
        self._order = ExampleOrder(
            opened.sources,
            opened.shares,
            seed=config.seed,
            repeat=config.repeat,
            turn_length=config.batch_size if config.alternate_tasks else None,
            window_examples=_window_of(config, opened),
        )
        self._identity = describe(config, opened, tasks.objectives, pack=self._make.pack)
        self.head, self.streams = opened.spec.head, opened.spec.streams
        self.label_loss: LabelLoss | None = opened.spec.label_loss
        self.num_rows_of_example = opened.spec.num_choices or 1
        self.num_ids = max(
            (
                num_input_ids(opened.vocabulary, source.input_format)
                for source in opened.sources
                if isinstance(source, LabeledSource)
            ),
            default=opened.ids.vocab_size,
        )
        self._cuts = process_count == 1  # all processes have arrays of one shape
        self._workers: WorkerPool[list[ExampleReference], Batch] | None = None
        self._num_filled = np.zeros(2, np.int64)  # real tokens and all positions, since the start
        self._position = self._order.first
        self._start(row=0)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """Return this process's rows of the next batch.

        Raises:
          StopIteration: All examples were returned (``repeat=False``).
        """
        parts, num_rows = [], 0
        while num_rows < self.config.batch_size and (window := self._current()) is not None:
            num_read = min(self.config.batch_size - num_rows, window.num_rows - self._row)
            # This process's rows among those from num_rows on.
            start, end = (min(max(row - num_rows, 0), num_read) for row in (self._own.start, self._own.stop))
            if end > start:
                parts.append(window.take(self._row + start, self._row + end))
            num_rows += num_read
            self._row += num_read
        if not num_rows:
            self.close()
            raise StopIteration
        num_missing = self._own.stop - self._own.start - sum(map(_num_rows, parts))
        if num_missing:
            parts.append(self._make.lay_out([[]] * num_missing))
        batch = join_rows(parts)
        batch = self._cut(batch) if self._cuts else batch
        self._num_filled += _count_filled(batch)
        return batch

    @property
    def labels(self) -> LabelSpace:
        """Meaning of the outputs of the head that reads the batches.

        Raises:
          ValueError: The tasks need different classes.
        """
        return self.config.labels(self.tasks)

    def padding(self) -> Batch:
        """Return a batch of empty rows."""
        return self._make.lay_out([[]] * (self._own.stop - self._own.start))

    def state(self) -> dict[str, object]:
        """Return the position after the last batch, as JSON values."""
        position = self._position if self._window is None else self._window.position
        return {"place": position.as_json(self.task_names), "row": self._row, "data": dict(self._identity)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue after the batch at which ``state`` was called; the following batches are bit-identical.

        If the rates of a mixture have changed, a warning is logged, and the new ones apply after the current thousand
        examples. If an objective has changed, a warning is logged too; some texts of the current epoch may then be
        repeated or skipped.

        Raises:
          ValueError: The state belongs to other data.
        """
        compare(state["data"], self._identity)
        self._position = LoaderPosition.from_json(state["place"], self.task_names)
        self._start(row=int(state["row"]))

    def steps_per_epoch(self) -> float:
        """Return the number of batches in which every example is read once.

        Raises:
          ValueError: Examples are packed, tasks have epochs of different lengths, or sizes aren't known.
        """
        advice = "give steps instead of epochs"
        mixture, sizes = f"mixture {self.config.mixture!r}", []
        if self._make.pack:
            raise ValueError(
                f"{mixture} puts several examples into a row, so the steps of an epoch aren't known; set pack=False "
                f"(LoaderConfig.pack = False in a recipe), or {advice}"
            )
        for name, source in zip(self.task_names, self._sources, strict=True):
            if source.size is None:
                raise ValueError(f"task {name!r} is read as a stream, whose size isn't known; {advice}")
            sizes.append(source.size)
        total = sum(sizes)
        if any(
            abs(share * total - size) > _SAME_EPOCHS * size
            for share, size in zip(self._shares, sizes, strict=True)
        ):
            epochs = ", ".join(
                f"{size / share / self.config.batch_size:.1f} of {name!r}"
                for name, size, share in zip(self.task_names, sizes, self._shares, strict=True)
                if share
            )
            raise ValueError(
                f"tasks of {mixture} have epochs of different lengths, in steps {epochs}; give rates in proportion to "
                f"the tasks' sizes, or {advice}"
            )
        return total / self.config.batch_size

    def epochs(self, num_steps: int) -> dict[str, float]:
        """Return how often so many steps read each corpus; tasks other than pretraining are left out.

        Args:
          num_steps: Steps of full batches.
        """
        rows = num_steps * self.config.batch_size
        return {
            name: rows * share / source.estimated_size
            for name, source, share in zip(self.task_names, self._sources, self._shares, strict=True)
            if isinstance(source, PretrainingSource)
        }

    @property
    def share_filled(self) -> float:
        """Fraction of positions in this process's batches that hold a token: the packing efficiency."""
        filled, slots = self._num_filled.tolist()
        return filled / slots if slots else 0.0

    def worker_states(self) -> list[str]:
        """Return a line about each worker process."""
        return self._workers.describe() if self._workers is not None else []

    def close(self) -> None:
        """Stop the worker processes, if there are any."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def _cut(self, batch: Batch) -> Batch:
        """Remove padding that no row of the batch needs."""
        batch = batch if self.head is None else cut_to_bucket(batch)
        return cut_sequences(batch, self.streams)

    def _start(self, *, row: int) -> None:
        """Set the position; reading starts with the first batch."""
        self.close()
        self._row, self._window, self._windows = row, None, self._made_windows(self._position, row)

    def _current(self) -> _Window | None:
        """Return the window that holds the next row; None at the end of a single pass."""
        while self._window is None or self._row == self._window.num_rows:
            window = next(self._windows, None)
            if window is None:
                return None
            # The first window begins at the row that was set by _start.
            self._row = self._row if self._window is None else 0
            self._window = window
        return self._window

    def _made_windows(self, position: LoaderPosition, row: int) -> Iterator[_Window]:
        waiting: deque[tuple[LoaderPosition, int, np.ndarray]] = deque()

        def wanted() -> Iterator[list[ExampleReference]]:
            begun = -row  # number of the window's first row, counted over batches
            for here, planned in self._order.windows(position):
                if self.config.group_by_length:
                    key = self.config.seed, "groups", here.window
                    planned = self._make.grouped(planned, self.config.batch_size, key)
                numbers = np.arange(len(planned))
                if not self._make.pack:  # rows of this process are known in advance
                    in_batch = (begun + numbers) % self.config.batch_size
                    numbers = numbers[(in_batch >= self._own.start) & (in_batch < self._own.stop)]
                begun += len(planned)
                waiting.append((here, len(planned), numbers))
                yield [planned[index] for index in numbers]

        for rows in self._made(wanted()):
            here, num_planned, numbers = waiting.popleft()
            if self._make.pack:
                yield _Window(here, _num_rows(rows), rows, np.arange(_num_rows(rows)))
            else:
                yield _Window(here, num_planned, rows, numbers)

    def _made(self, wanted: Iterator[list[ExampleReference]]) -> Iterator[Batch]:
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
    """Find the tasks that ``config`` names, tokenize them, and return a loader at their first batch.

    Args:
      config: Tasks, batch size and lengths.
      process_index: Index p of this process; it gets rows ``p * batch_size / n`` to ``(p + 1) * batch_size / n``.
      process_count: Number n of processes; the batches of all together don't depend on it.

    Raises:
      ValueError: Unknown names, bad rows, or lengths or sizes that don't fit.
    """
    tasks = registry.resolve(config.mixture)
    return Loader(config, tasks, process_index=process_index, process_count=process_count)


def empty_row(config: LoaderConfig, tasks: TaskSet) -> Batch:
    """Return a batch of one row of padding, in the full length of ``config``'s batches; no file is read.

    Args:
      config: Configuration of the loader.
      tasks: Tasks of the mixture that ``config`` names.
    """
    spec = spec_of_tasks(config, tasks)
    lengths = Lengths(config.inputs_length, config.targets_length)
    pack = config.pack and not spec.fills_rows
    return RowMaker((), lengths, spec, pack=pack, zero_is_padding=True).lay_out([[]])


def _window_of(config: LoaderConfig, opened: OpenedTasks) -> int | None:
    """Return the number of examples that are made together; ``None`` for the usual one."""
    if all(field.max_length is None for field in opened.spec.streams):
        return None
    return max(_WINDOW_RECORDINGS, 2 * config.batch_size)


def _check_sizes(config: LoaderConfig, opened: OpenedTasks) -> None:
    """Refuse tasks whose lengths aren't known before rows are made."""
    for name, source in zip(opened.names, opened.sources, strict=True):
        if not isinstance(source, SizedSource):
            raise ValueError(
                f"group_by_length is for tasks of encoders' heads (layout='encoder') and of speech, and {name!r} in "
                f"{config.mixture!r} is another; leave it out, as others are packed"
            )


def _check_turns(config: LoaderConfig, opened: OpenedTasks, *, pack: bool) -> None:
    """Refuse tasks that can't take turns batch by batch."""
    if pack:
        raise ValueError(
            "alternate_tasks gives each batch examples of one task, and packed rows have unknown numbers of examples; "
            "set pack=False (LoaderConfig.pack = False in a recipe)"
        )
    rates = {name: share for name, share in zip(opened.names, opened.shares, strict=True) if share}
    if max(rates.values()) > min(rates.values()) * (1 + _SAME_EPOCHS):
        listed = ", ".join(f"{name} {share:.3g}" for name, share in rates.items())
        raise ValueError(
            f"alternate_tasks gives each task of {config.mixture!r} as many batches, and their rates differ: {listed}; "
            "give equal rates, or set alternate_tasks=False"
        )


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
