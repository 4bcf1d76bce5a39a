"""A pool of worker processes that call one function on many items.

Workers are plain child processes with pipes. Nothing is forked from a process that runs JAX or TensorFlow, and the main
module of a program is not imported again.
"""

import contextlib
import io
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextvars import ContextVar
from queue import SimpleQueue
from typing import IO, Any, BinaryIO, Generic, NamedTuple, Self, TypeVar

import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")

_ITEMS_AHEAD = 2  # items per worker that wait, are in work, or have unread results
_SHARED_BYTES = 2**20  # larger arrays go through a file, which all workers map into memory
_SIGNALS_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_ALIGNMENT = 64  # bytes, numpy's own alignment
_COMMAND = "from t5x_like.io.worker_pool import _serve; _serve()"


class _Report(NamedTuple):
    value: Any


_reporter: ContextVar[Callable[[Any], None] | None] = ContextVar("reporter", default=None)


def report(value: object) -> None:
    """Pass a picklable value from a pool's function to the pool's ``on_report``; ignored outside of a pool."""
    if (reporter := _reporter.get()) is not None:
        reporter(value)


class WorkerError(ChildProcessError, ValueError):
    """A worker process was killed or ended by itself."""


class WorkerPool(Generic[Item, Result]):
    """Calls a function in ``num_workers`` processes, which end with this process, however it ends.

    Workers ignore Ctrl-C, SIGTERM, SIGHUP and SIGUSR1, which terminals and schedulers send to all processes of a job:
    this process decides when to stop and then ends its workers.
    """

    def __init__(
        self,
        function: Callable[[Item], Result],
        num_workers: int,
        *,
        owner: str,
        flag: str,
        kept: str | None = None,
        prepare: Callable[[], object] | None = None,
        on_report: Callable[[Any], None] | None = None,
    ) -> None:
        """Start the processes.

        Args:
          function: Picklable function, sent to each process once. Large arrays in it are shared in memory.
          num_workers: Number of processes; 0 calls the function in this process.
          owner: Name of the pool's owner, for messages.
          flag: Setting to lower when memory runs out, for messages.
          kept: Name of finished work that a killed worker doesn't lose, for messages.
          prepare: Picklable function called first in each process.
          on_report: Called with each value that ``function`` passes to ``report``, in a thread of the pool.
        """
        self._on_report = on_report
        self._function, self._owner, self._flag, self._kept = function, owner, flag, kept
        self._calls: SimpleQueue[tuple[Future[Result], bytes] | None] = SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._busy_since: dict[int, float] = {}  # by process id
        self._threads: list[threading.Thread] = []
        if not num_workers:
            return
        with (
            tempfile.TemporaryFile() as shared
        ):  # has no name, so the system removes it when all processes have ended
            packed = _pack((function, prepare), shared)
            with _signals_blocked():
                self._processes = [_start(shared.fileno()) for _ in range(num_workers)]
        for process in self._processes:
            # Daemons: a program that forgets to close the pool can end.
            thread = threading.Thread(target=self._exchange, args=(process, packed), daemon=True)
            thread.start()
            self._threads.append(thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def in_order(self, items: Iterable[Item]) -> Generator[tuple[Item, Result]]:
        """Yield items with their results, in the order of the items; a few items are taken ahead.

        Raises:
          Exception: Any error of the function, at its item, with the worker's traceback as a note. A
            ValueError that another library raised comes as a RuntimeError, because it isn't a user's mistake.
          WorkerError: A process was killed.
        """
        if not self._processes:
            yield from ((item, self._call_here(item)) for item in items)
            return
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        for item in items:
            waiting.append((item, self._submit(item)))
            if len(waiting) == _ITEMS_AHEAD * len(self._processes):
                item, future = waiting.popleft()
                yield item, _result_of(future)
        while waiting:
            item, future = waiting.popleft()
            yield item, _result_of(future)

    def as_done(self, items: Iterable[Item]) -> Generator[tuple[Item, Result]]:
        """Yield items with their results as they are finished; raises as ``in_order`` does."""
        if not self._processes:
            yield from ((item, self._call_here(item)) for item in items)
            return
        running: dict[Future[Result], Item] = {}
        for item in items:
            running[self._submit(item)] = item
            if len(running) == _ITEMS_AHEAD * len(self._processes):
                yield from _finished(running)
        while running:
            yield from _finished(running)

    def describe(self) -> list[str]:
        """Return a line about each process: whether it works, waits or has ended."""
        lines = []
        for process in self._processes:
            since, code = self._busy_since.get(process.pid), process.poll()
            state = "waits for work" if since is None else f"has worked for {time.monotonic() - since:.0f} s"
            state = state if code is None else f"ended with code {code}"
            lines.append(f"process {process.pid}, a worker of {self._owner}, {state}")
        return lines

    def close(self) -> None:
        """End the processes at once; unfinished work is lost."""
        while not self._calls.empty():
            self._calls.get()
        for process in self._processes:
            process.kill()
            self._calls.put(None)
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _call_here(self, item: Item) -> Result:
        token = _reporter.set(self._on_report)
        try:
            return self._function(item)
        finally:
            _reporter.reset(token)

    def _submit(self, item: Item) -> "Future[Result]":
        future: Future[Result] = Future()
        self._calls.put((future, pickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL)))
        return future

    def _exchange(self, process: "subprocess.Popen[bytes]", packed: bytes) -> None:
        """Send items to one process and receive its results, in a separate thread, until the pool is closed."""
        with contextlib.suppress(WorkerError):  # the first item fails too
            self._send(process, packed)
        while (call := self._calls.get()) is not None:
            future, item = call
            self._busy_since[process.pid] = time.monotonic()
            try:
                self._send(process, item)
                while isinstance(result := self._receive(process), _Report):
                    if self._on_report is not None:
                        self._on_report(result.value)
            except Exception as error:
                result = error
            del self._busy_since[process.pid]
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
            del call, future, result  # don't keep results alive until the next item

    def _send(self, process: "subprocess.Popen[bytes]", packed: bytes) -> None:
        assert process.stdin is not None
        try:
            pickle.dump(packed, process.stdin)
            process.stdin.flush()
        except BrokenPipeError:
            raise self._ended(process) from None

    def _receive(self, process: "subprocess.Popen[bytes]") -> Any:
        assert process.stdout is not None
        try:
            return pickle.load(process.stdout)
        except (EOFError, pickle.UnpicklingError):  # before a result, or within one
            raise self._ended(process) from None

    def _ended(self, process: "subprocess.Popen[bytes]") -> WorkerError:
        code = process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        why = ""
        if code == -signal.SIGKILL:
            why = f"; the system does so when memory runs out: lower {self._flag}"
        if self._kept is not None:
            why += f"; start the same command again: finished {self._kept} are kept"
        return WorkerError(f"process {process.pid}, a worker of {self._owner}, {how}{why}")


def _finished(running: "dict[Future[Result], Item]") -> Iterator[tuple[Item, Result]]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        yield running.pop(future), _result_of(future)


def _result_of(future: "Future[Result]") -> Result:
    """Return the result, or raise the error here: the command line asks which package raised it."""
    if (error := future.exception()) is not None:
        raise error
    return future.result()


class _SharingPickler(pickle.Pickler):
    """Writes large arrays to a file, each once."""

    def __init__(self, stream: BinaryIO, shared: IO[bytes]) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self._shared = shared

    def reducer_override(self, obj: object) -> object:
        """See ``pickle.Pickler.reducer_override``."""
        if type(obj) is not np.ndarray or obj.nbytes < _SHARED_BYTES:
            return NotImplemented
        offset = self._shared.seek(-self._shared.tell() % _ALIGNMENT, os.SEEK_CUR)
        obj.tofile(self._shared)
        return _map, (self._shared.fileno(), offset, obj.dtype, obj.shape)


def _map(descriptor: int, offset: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Map an array of the shared file, which a worker inherits open under the same number."""
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return np.memmap(file, dtype, mode="r", offset=offset, shape=shape)


def _pack(value: object, shared: IO[bytes]) -> bytes:
    stream = io.BytesIO()
    _SharingPickler(stream, shared).dump(value)
    return stream.getvalue()


def _start(shared: int) -> "subprocess.Popen[bytes]":
    # One thread in each worker: workers already run in parallel.
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | one | {"PYTHONPATH": path},
        pass_fds=(shared,),
    )


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block signals for processes that are started inside."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS_TO_STOP)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve() -> None:
    """Run a worker."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not get between the results
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def send(content: bytes) -> None:
        results.write(content)
        results.flush()

    _reporter.set(lambda value: send(pickle.dumps(_Report(value))))
    function: Any = None
    failure = b""
    try:
        function, prepare = pickle.loads(pickle.load(sys.stdin.buffer))
        if prepare is not None:
            prepare()
    except EOFError:
        return
    except Exception as error:
        failure = pickle.dumps(sendable_error(error))
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            item = pickle.load(sys.stdin.buffer)
            send(failure or _call(function, item))


def _call(function: Callable[[Any], Any], item: bytes) -> bytes:
    """Return the pickled result, or the pickled error."""
    try:
        return pickle.dumps(function(pickle.loads(item)), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return pickle.dumps(sendable_error(error))


def sendable_error(error: Exception) -> Exception:
    """Add the traceback, which pickling drops, as a note.

    The origin of a ValueError would be lost too, and the command line takes ours for a user's mistake.
    """
    if hasattr(error, "__notes__"):
        return error
    frames = list(traceback.walk_tb(error.__traceback__))
    is_of_package = frames[-1][0].f_globals.get("__name__", "").split(".")[0] == "t5x_like"
    sent = (
        error
        if is_of_package or not isinstance(error, ValueError)
        else RuntimeError(f"{type(error).__name__}: {error}")
    )
    sent.add_note(f"in a worker process:\n{traceback.format_exc()}")
    return sent


def _end_with_parent() -> None:
    """Wait until the other end of the pipe of items is closed, then end this process at once."""
    parent = select.poll()
    parent.register(0, 0)  # hang-ups only
    parent.poll()
    os._exit(1)
