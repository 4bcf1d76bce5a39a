"""The same function over many items, in processes of their own, results in order.

Plain child processes and pipes: nothing is forked from a process that runs JAX, and nobody's main module is imported.
"""

import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, BinaryIO, Generic, TypeVar

import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 2  # items given to each worker before its first result is read
_SHARED_BYTES = 2**20  # larger arrays go through a file, which all workers map into memory
_ALIGNED_TO = 64  # bytes, as arrays in memory are at least


class Workers(Generic[Item, Result]):
    """``num_workers`` processes that have ``function``, which must be picklable. They end with this process."""

    def __init__(self, function: Callable[[Item], Result], num_workers: int) -> None:
        command = [sys.executable, "-m", "t5x_like.text.batches.workers"]
        with tempfile.TemporaryFile() as shared:  # it has no name, so it is gone however the processes end
            packed = _pack(function, shared)
            with _signals_held_back():
                self._processes = [_begin(command, shared.fileno()) for _ in range(num_workers)]
        for process in self._processes:
            self._send(process, packed)

    def map(self, items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Items with their results; a few items are taken ahead. Whom an item goes to doesn't change its result.

        Raises:
          Exception: whatever the function raised, at the item where it did; a ValueError of another library comes as
            a RuntimeError, for it tells of no mistake that the user could mend.
          ChildProcessError: a process was killed.
        """
        waiting: deque[tuple[Item, subprocess.Popen[bytes]]] = deque()
        for number, item in enumerate(items):
            process = self._processes[number % len(self._processes)]
            self._send(process, pickle.dumps(item))
            waiting.append((item, process))
            if len(waiting) == _AHEAD * len(self._processes):
                yield self._receive(*waiting.popleft())
        while waiting:
            yield self._receive(*waiting.popleft())

    def close(self) -> None:
        """Ends the processes."""
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _receive(self, item: Item, process: "subprocess.Popen[bytes]") -> tuple[Item, Any]:
        assert process.stdout is not None
        try:
            result = pickle.load(process.stdout)
        except (EOFError, pickle.UnpicklingError):  # before a result, or within one
            raise _ended(process) from None
        if isinstance(result, Exception):
            raise result
        return item, result

    def _send(self, process: "subprocess.Popen[bytes]", packed: bytes) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(packed)
            process.stdin.flush()
        except BrokenPipeError:
            raise _ended(process) from None


class _SharingPickler(pickle.Pickler):
    """Writes large arrays to a file, each once."""

    def __init__(self, stream: BinaryIO, shared: IO[bytes]) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self._shared = shared

    def reducer_override(self, obj: Any) -> Any:
        """See ``pickle.Pickler.reducer_override``."""
        if type(obj) is not np.ndarray or obj.nbytes < _SHARED_BYTES:
            return NotImplemented
        place = self._shared.seek(-self._shared.tell() % _ALIGNED_TO, os.SEEK_CUR)
        obj.tofile(self._shared)
        return _map, (self._shared.fileno(), place, obj.dtype, obj.shape)


def _map(descriptor: int, place: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """An array in a file that was handed over open, under the same number."""
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return np.memmap(file, dtype, mode="r", offset=place, shape=shape)


def _pack(function: Any, shared: IO[bytes]) -> bytes:
    stream = io.BytesIO()
    _SharingPickler(stream, shared).dump(function)
    return stream.getvalue()


def _begin(command: list[str], shared: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(), pass_fds=(shared,)
    )


def _environment() -> dict[str, str]:
    """One thread each: the workers are what runs side by side."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(path for path in sys.path if path)
    return os.environ | one | {"PYTHONPATH": path}


def _ended(process: "subprocess.Popen[bytes]") -> ChildProcessError:
    code = process.wait()
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    why = "; the system does so when memory runs out: lower num_workers" if code == -signal.SIGKILL else ""
    return ChildProcessError(f"process {process.pid}, a worker of the loader, {how}{why}")


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Processes begun inside never see Ctrl-C or SIGTERM, which schedulers send to all processes of a job: the run
    still needs batches while it comes to its end, and takes its workers with it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve() -> None:
    """What a worker does until its input ends."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints must not get among the results
    items = sys.stdin.buffer
    try:
        function = pickle.load(items)
        while True:
            item = pickle.load(items)
            try:
                result = function(item)
            except Exception as error:
                result = _to_send(error)
            pickle.dump(result, results, protocol=pickle.HIGHEST_PROTOCOL)
            results.flush()
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return


def _to_send(error: Exception) -> Exception:
    """The error with its traceback, which would be lost on the way.

    From where a ValueError came would be lost too, and the command line takes ours, alone, for a user's mistake.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    is_ours = frames[-1][0].f_globals.get("__name__", "").split(".")[0] == "t5x_like"
    sent = (
        error
        if is_ours or not isinstance(error, ValueError)
        else RuntimeError(f"{type(error).__name__}: {error}")
    )
    sent.add_note(f"in a worker of the loader:\n{traceback.format_exc()}")
    return sent


if __name__ == "__main__":
    _serve()
