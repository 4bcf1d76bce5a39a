"""Work done by several processes."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple, TypeVar

Given = TypeVar("Given")
Result = TypeVar("Result")

# Pieces of work waiting or done for each process: enough to keep it busy, little enough for memory.
_AHEAD = 3


def in_order(
    function: Callable[[Given], Result],
    work: Iterable[Given],
    *,
    num_processes: int,
    prepare: Callable[[], object] | None = None,
) -> Generator[Result]:
    """``map(function, work)`` by so many processes; by this one where there is to be only one.

    ``prepare`` is called first in each that is started.

    Raises:
      ValueError: whatever ``function`` raised so, or a process was killed.
    """
    if num_processes <= 1:
        yield from map(function, work)
        return
    with _pool(num_processes, prepare, flag="--num_processes", kept="shards") as pool:
        waiting: deque[Future[Result]] = deque()
        for piece in work:
            waiting.append(pool.submit(function, piece))
            if len(waiting) >= _AHEAD * num_processes:
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())


class Workers(NamedTuple):
    """So many processes, or this one where ``pool`` is None."""

    number: int
    pool: ProcessPoolExecutor | None


@contextlib.contextmanager
def start_workers(number: int, *, flag: str, kept: str) -> Iterator[Workers]:
    """Processes for ``as_done``, as long as the context lasts; ended at once if an error comes by.

    Raises:
      ValueError: a process was killed; says to lower ``flag``, and that what is ``kept`` isn't lost.
    """
    if number <= 1:
        yield Workers(1, None)
        return
    with _pool(number, None, flag=flag, kept=kept) as pool:
        yield Workers(number, pool)


def as_done(
    function: Callable[[Given], Result], work: Iterable[Given], workers: Workers
) -> Generator[tuple[Given, Result]]:
    """What was given and what came of it, in the order in which they are finished: no process waits for another's.

    Raises:
      ValueError: whatever ``function`` raised so.
    """
    if workers.pool is None:
        for piece in work:
            yield piece, function(piece)
        return
    running: dict[Future[Result], Given] = {}
    for piece in work:
        running[workers.pool.submit(function, piece)] = piece
        if len(running) >= 2 * workers.number:
            yield from _finished(running)
    while running:
        yield from _finished(running)


def _finished(running: "dict[Future[Result], Given]") -> Iterator[tuple[Given, Result]]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        yield running.pop(future), _result(future)


@contextlib.contextmanager
def _pool(
    num_processes: int, prepare: Callable[[], object] | None, *, flag: str, kept: str
) -> Iterator[ProcessPoolExecutor]:
    # New interpreters, not forks: TensorFlow, loaded before a fork, hangs after it.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        num_processes, mp_context=context, initializer=_follow_parent, initargs=(prepare,)
    )
    try:
        yield pool
    except BrokenProcessPool as error:
        raise ValueError(
            "a worker process was killed, most likely for want of memory; start the same command again with a lower "
            f"{flag}: finished {kept} are kept. (Or it couldn't start: a program that starts workers needs "
            '`if __name__ == "__main__":` around what it does.)'
        ) from error
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()  # what it is at may take long, and nobody waits for it any more
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _result(future: "Future[Result]") -> Result:
    try:
        return future.result()
    except ValueError as error:
        raise ValueError(str(error)) from None  # without the pages of the other process's stack


def _follow_parent(prepare: Callable[[], object] | None) -> None:
    """A worker ends with the process it works for, however that ended, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def wait_for_parent() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait_for_parent, daemon=True).start()
    if prepare is not None:
        prepare()
