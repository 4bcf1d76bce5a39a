"""Batches that several steps read."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from t5x_like.batch import Batch
from t5x_like.text.batches.loader import Loader
from t5x_like.training.batch_ramp import RampLoader


class RepeatLoader:
    """Gives each batch of another loader to several steps.

    Args:
      loader: The other loader.
      count: Steps that read a batch.
    """

    def __init__(self, loader: Loader | RampLoader, count: int) -> None:
        self._loader, self._count = loader, count
        self._num_read, self._batch = 0, None
        self._before = loader.state()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """Return the batch of the next step."""
        if self._batch is None or self._num_read % self._count == 0:
            self._before = self._loader.state()
            self._batch = next(iter(self._loader))
        self._num_read = self._num_read % self._count + 1
        return self._batch

    def epochs(self, num_steps: int) -> dict[str, float]:
        """Return how often so many steps read each corpus; see ``Loader.epochs``."""
        return self._loader.epochs(-(-num_steps // self._count))

    def steps_per_epoch(self) -> float:
        """Return the number of steps in which every example is read; see ``Loader.steps_per_epoch``."""
        return self._loader.steps_per_epoch() * self._count

    def close(self) -> None:
        """Stop the worker processes, if there are any."""
        self._loader.close()

    def state(self) -> dict[str, object]:
        """Return the position after the last step, as JSON values: the batch's own, and how many steps have read it."""
        is_read = self._num_read == self._count
        return {"num_read": self._num_read, "loader": self._loader.state() if is_read else self._before}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue after the step at which ``state`` was called."""
        self._num_read, self._batch = state["num_read"], None
        self._loader.restore(state["loader"])
        self._before = self._loader.state()
        if self._num_read != self._count and self._num_read:
            self._batch = next(iter(self._loader))


# What a run reads its batches from.
TrainingLoader: TypeAlias = Loader | RampLoader | RepeatLoader
