"""Places batches on the mesh ahead of time, each with the position in the data after it."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from t5x_like.batch import Batch
from t5x_like.training.repeat_loader import TrainingLoader

_AHEAD = 2  # batches waiting on the device: one being used, one ready
_SECONDS_BETWEEN_CALLS = 0.2


class PrefetchedBatch(NamedTuple):
    """A placed batch, the loader's position just after it, and the seconds the loop waited for it."""

    batch: Batch
    loader_state: dict[str, Any]
    waited_seconds: float


class Prefetcher:
    """Reads a loader in a thread. An error in the data is raised at the step that needed it.

    Args:
      loader: Iterates over NumPy batches, and returns its position by ``state()``.
      place: Turns a NumPy batch of this process into global arrays on the mesh.
      while_waiting: Function called several times a second while the loop waits; its errors end the wait.
    """

    def __init__(
        self,
        loader: TrainingLoader,
        place: Callable[[Batch], Batch],
        while_waiting: Callable[[], None] = lambda: None,
    ):
        self._loader = loader
        self._place, self._while_waiting = place, while_waiting
        self._ready: queue.Queue[tuple[Batch, dict[str, Any]] | BaseException] = queue.Queue(_AHEAD)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="prefetcher", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[PrefetchedBatch]:
        return self

    def __next__(self) -> PrefetchedBatch:
        start = time.perf_counter()
        item = self._wait()
        if isinstance(item, BaseException):
            self._ready.put(item)
            raise item
        return PrefetchedBatch(*item, waited_seconds=time.perf_counter() - start)

    def _wait(self) -> tuple[Batch, dict[str, object]] | BaseException:
        while True:
            try:
                return self._ready.get(timeout=_SECONDS_BETWEEN_CALLS)
            except queue.Empty:
                self._while_waiting()

    def __enter__(self) -> "Prefetcher":
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread; batches read ahead are dropped and will be read again on resume."""
        self._closed.set()
        while self._thread.is_alive():
            try:
                self._ready.get_nowait()
            except queue.Empty:
                self._thread.join(timeout=0.05)

    def _fill(self) -> None:
        try:
            for batch in self._loader:
                self._offer((self._place(batch), self._loader.state()))
                if self._closed.is_set():
                    return
            self._offer(StopIteration())
        except BaseException as error:  # handed over to the thread that asks
            self._offer(error)

    def _offer(self, item: tuple[Batch, dict[str, object]] | BaseException) -> None:
        while not self._closed.is_set():
            try:
                self._ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue
