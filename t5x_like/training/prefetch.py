"""Lays batches on the mesh ahead of time, and remembers where in the data the run is."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from t5x_like.batch import Batch

_AHEAD = 2  # batches waiting on the device: one being used, one ready


class Fed(NamedTuple):
    """A placed batch with the loader's position just after it, and the seconds the loop waited for it."""

    batch: Batch
    loader_state: dict[str, Any]
    waited_seconds: float


class Feed:
    """Reads ``loader`` in a thread of its own. An error in the data surfaces at the step that needed it.

    ``place`` turns a numpy batch of this process into a global array on the mesh.
    """

    def __init__(self, loader: Any, place: Callable[[Batch], Batch]):
        self._loader = loader
        self._place = place
        self._ready: queue.Queue[tuple[Batch, dict[str, Any]] | BaseException] = queue.Queue(_AHEAD)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="feed", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Fed]:
        return self

    def __next__(self) -> Fed:
        start = time.perf_counter()
        item = self._ready.get()
        if isinstance(item, BaseException):
            self._ready.put(item)
            raise item
        return Fed(*item, waited_seconds=time.perf_counter() - start)

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the thread; batches read ahead are dropped and will be read again on resume."""
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

    def _offer(self, item: tuple[Batch, dict[str, Any]] | BaseException) -> None:
        while not self._closed.is_set():
            try:
                self._ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue
