"""Order of the training examples: tasks are drawn by rate, each with its own epochs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.batches.example_sources import ExampleSource
from t5x_like.text.batches.order import draw_tasks, key_of, take_turns

WINDOW_EXAMPLES = 1024  # examples ordered, made and packed together


class ExampleReference(NamedTuple):
    """Reference to an example.

    Attributes:
      task: Index of the task.
      epoch: Epoch of the task.
      position: Position in the epoch.
    """

    task: int
    epoch: int
    position: int


class LoaderPosition(NamedTuple):
    """Start of a window in the sequence of examples.

    Attributes:
      window: Number of the window.
      tasks: Epoch and position of each task.
      shares: Relative rates by which the window is drawn.
    """

    window: int
    tasks: tuple[tuple[int, int], ...]
    shares: tuple[float, ...]

    def as_json(self, names: Sequence[str]) -> dict[str, object]:
        """Return JSON values, keyed by the tasks' names."""
        positions, shares = (
            dict(zip(names, self.tasks, strict=True)),
            dict(zip(names, self.shares, strict=True)),
        )
        return {
            "window": self.window,
            "tasks": {name: list(position) for name, position in positions.items()},
            "shares": shares,
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any], names: Sequence[str]) -> "LoaderPosition":
        """Restore a position.

        Args:
          written: Values of ``as_json``.
          names: Names of the tasks in the loader's order.
        """
        tasks = tuple((int(written["tasks"][name][0]), int(written["tasks"][name][1])) for name in names)
        return cls(int(written["window"]), tasks, tuple(float(written["shares"][name]) for name in names))


class ExampleOrder:
    """Infinite sequence of training examples, or one pass over every task in turn, by windows.

    The task of example ``k`` depends only on ``k`` and the shares, so any position can be reached directly.

    Args:
      sources: Examples of each task.
      shares: Relative rates of the tasks.
      seed: Seed of the draws.
      repeat: False for one pass.
      turn_length: Examples of a task before the next task's turn; ``None`` to draw the task of each example.
      window_examples: Examples of a window, ``WINDOW_EXAMPLES`` by default.
    """

    def __init__(
        self,
        sources: Sequence[ExampleSource],
        shares: Sequence[float],
        *,
        seed: int,
        repeat: bool,
        turn_length: int | None = None,
        window_examples: int | None = None,
    ) -> None:
        self._num_examples = window_examples or WINDOW_EXAMPLES
        self._sources, self._repeat, self._turn_length = sources, repeat, turn_length
        self._key = key_of(seed, "tasks")
        self._shares = tuple(shares)

    @property
    def first(self) -> LoaderPosition:
        """Start of the sequence."""
        return LoaderPosition(0, ((0, 0),) * len(self._sources), self._shares)

    def windows(self, position: LoaderPosition) -> Iterator[tuple[LoaderPosition, list[ExampleReference]]]:
        """Yield windows from a position on, with their own positions; the first uses the shares of ``position``."""
        while planned := self._plan(position):
            yield position, planned
            position = LoaderPosition(position.window + 1, tuple(self._frontier), self._shares)

    def _plan(self, position: LoaderPosition) -> list[ExampleReference]:
        self._frontier = list(position.tasks)
        if not self._repeat:
            return self._in_turn()
        shares, start = np.array(position.shares), position.window * self._num_examples
        if self._turn_length is None:
            drawn = draw_tasks(shares, start, self._num_examples, self._key)
        else:
            drawn = take_turns(shares, start, self._num_examples, self._turn_length)
        counts = np.bincount(drawn, minlength=len(self._sources))
        per_task = [iter(self._advance(task, int(count))) for task, count in enumerate(counts)]
        return [next(per_task[task]) for task in drawn]

    def _in_turn(self) -> list[ExampleReference]:
        planned: list[ExampleReference] = []
        for task, source in enumerate(self._sources):
            while (position := self._frontier[task])[0] == 0 and len(planned) < self._num_examples:
                if (remaining := source.remaining(*position)) > 0:
                    planned += self._advance(task, min(self._num_examples - len(planned), remaining))
                else:
                    self._frontier[task] = source.following(*position)
        return planned

    def _advance(self, task: int, num_examples: int) -> list[ExampleReference]:
        """Return the task's next examples, over as many epochs as necessary."""
        source = self._sources[task]
        planned: list[ExampleReference] = []
        began = self._frontier[task][0]
        while len(planned) < num_examples:
            epoch, position = self._frontier[task]
            count = min(num_examples - len(planned), source.remaining(epoch, position))
            if count > 0:  # may be negative if a changed objective cuts a window into fewer texts
                planned += [
                    ExampleReference(task, epoch, index) for index in range(position, position + count)
                ]
                self._frontier[task] = (epoch, position + count)
                continue
            self._frontier[task] = source.following(epoch, position)
            if not planned and self._frontier[task][0] > began + 1:  # an epoch without examples
                raise ValueError(f"task {source.name!r} has no examples")
        return planned
