"""Which examples come next: tasks drawn by rate, each going through its own epochs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.batches.example_sources import ExampleSource
from t5x_like.text.batches.order import draw_tasks, key_of

WINDOW_EXAMPLES = 1024  # planned, made and packed together


class PlannedExample(NamedTuple):
    """An example by its place, before any token of it is made."""

    task: int
    epoch: int
    position: int


class LoaderPosition(NamedTuple):
    """Where a window of the sequence begins, and by which shares it is drawn."""

    window: int
    tasks: tuple[tuple[int, int], ...]  # the epoch and position that each task has come to
    shares: tuple[float, ...]

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """In JSON's types."""
        places, shares = dict(zip(names, self.tasks, strict=True)), dict(zip(names, self.shares, strict=True))
        return {
            "window": self.window,
            "tasks": {name: list(place) for name, place in places.items()},
            "shares": shares,
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any], names: Sequence[str]) -> "LoaderPosition":
        """The inverse of ``as_json``."""
        tasks = tuple((int(written["tasks"][name][0]), int(written["tasks"][name][1])) for name in names)
        return cls(int(written["window"]), tasks, tuple(float(written["shares"][name]) for name in names))


class Planner:
    """The endless sequence of training examples, or one pass over every task in turn, a window at a time.

    Example ``k`` is of a task that depends on ``k`` and the shares alone. Any place can be gone to at once.
    """

    def __init__(
        self, sources: Sequence[ExampleSource], shares: Sequence[float], *, seed: int, repeat: bool
    ) -> None:
        self._sources, self._repeat = sources, repeat
        self._key = key_of(seed, "tasks")
        self._shares = tuple(shares)

    @property
    def first(self) -> LoaderPosition:
        """Where the sequence begins."""
        return LoaderPosition(0, ((0, 0),) * len(self._sources), self._shares)

    def windows(self, place: LoaderPosition) -> Iterator[tuple[LoaderPosition, list[PlannedExample]]]:
        """Windows from a place on, with the places where they begin. The first has that place's own shares."""
        while planned := self._plan(place):
            yield place, planned
            place = LoaderPosition(place.window + 1, tuple(self._frontier), self._shares)

    def _plan(self, place: LoaderPosition) -> list[PlannedExample]:
        self._frontier = list(place.tasks)
        if not self._repeat:
            return self._in_turn()
        drawn = draw_tasks(np.array(place.shares), place.window * WINDOW_EXAMPLES, WINDOW_EXAMPLES, self._key)
        counts = np.bincount(drawn, minlength=len(self._sources))
        of_task = [iter(self._advance(task, int(count))) for task, count in enumerate(counts)]
        return [next(of_task[task]) for task in drawn]

    def _in_turn(self) -> list[PlannedExample]:
        planned: list[PlannedExample] = []
        for task, source in enumerate(self._sources):
            while (place := self._frontier[task])[0] == 0 and len(planned) < WINDOW_EXAMPLES:
                if (remaining := source.remaining(*place)) > 0:
                    planned += self._advance(task, min(WINDOW_EXAMPLES - len(planned), remaining))
                else:
                    self._frontier[task] = source.following(*place)
        return planned

    def _advance(self, task: int, num_examples: int) -> list[PlannedExample]:
        """The task's next examples, through as many epochs as they take."""
        source = self._sources[task]
        planned: list[PlannedExample] = []
        began = self._frontier[task][0]
        while len(planned) < num_examples:
            epoch, position = self._frontier[task]
            count = min(num_examples - len(planned), source.remaining(epoch, position))
            if count > 0:  # fewer than none remain where a changed objective cuts a window into fewer texts
                planned += [PlannedExample(task, epoch, place) for place in range(position, position + count)]
                self._frontier[task] = (epoch, position + count)
                continue
            self._frontier[task] = source.following(epoch, position)
            if not planned and self._frontier[task][0] > began + 1:  # a whole epoch of nothing
                raise ValueError(f"task {source.name!r} has no examples")
        return planned
