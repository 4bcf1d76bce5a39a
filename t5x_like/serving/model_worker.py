"""One thread that computes for all requests, several of which may be computed together."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeAlias, TypeVar

from t5x_like.serving.request_fields import RequestError

Result = TypeVar("Result")


class ModelRequest(NamedTuple):
    """A request as the model reads it.

    Attributes:
      fields: Values of its fields.
      is_cancelled: Returns True when nobody waits for the result any more.
    """

    fields: dict[str, Any]
    is_cancelled: Callable[[], bool] = lambda: False


class Partial(NamedTuple):
    """A further part of an answer that is streamed.

    Attributes:
      choice: Index of the text.
      text: Part of the text.
    """

    choice: int
    text: str


# Returns the requests that have come since the last call.
Arrivals: TypeAlias = Callable[[], Sequence[ModelRequest]]

# Computes requests until none is left. Yields the index of each once it is done, with its result or the error that
# answers it; parts of the answer may come before.
Compute: TypeAlias = Callable[[Arrivals], Iterator[tuple[int, Partial | Result | RequestError]]]


class _Job(NamedTuple):
    compute: Compute[Any]
    request: ModelRequest
    future: Future[Any]
    deliver: Callable[[Partial], None]


class ModelWorker:
    """Computes requests in their order. Those that wait for the same are computed together.

    Args:
      waiting: Requests that may wait for the one in work.
      seconds: Time of a request, waiting included.
    """

    def __init__(self, *, waiting: int, seconds: float):
        self._most, self._seconds = waiting + 1, seconds
        self._number, self._is_closed = 0, False
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        threading.Thread(target=self._work, name="model", daemon=True).start()

    @property
    def num_requests(self) -> int:
        """Number of requests that are in work or waiting."""
        return self._number

    async def run(self, compute: Compute[Result], fields: dict[str, Any]) -> Result:
        """Return the result of a request.

        Args:
          compute: Computes this request and others like it.
          fields: Values of its fields.

        Raises:
          RequestError: Too many requests wait, it took too long, or it is refused.
        """
        outcomes = [each async for each in self.stream(compute, fields) if not isinstance(each, Partial)]
        return outcomes[0]

    async def stream(
        self, compute: Compute[Result], fields: dict[str, Any]
    ) -> AsyncIterator[Partial | Result]:
        """Yield partial results of a request when they come, and its result at last.

        A request ends early where its stream is closed, or its task is.

        Args:
          compute: Computes this request and others like it.
          fields: Values of its fields.

        Raises:
          RequestError: Too many requests wait, it took too long, or it is refused.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[Partial | Future[Result]] = asyncio.Queue()

        def deliver(outcome: Partial | Future[Result]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(arrived.put_nowait, outcome)

        abandoned, future = threading.Event(), Future[Result]()
        with self._changed:
            if self._is_closed:
                raise RequestError("the server ends", status=503)
            if self._number >= self._most:
                raise RequestError(f"{self._number} requests are in work; try again later", status=429)
            self._number += 1
            self._jobs.append(_Job(compute, ModelRequest(fields, abandoned.is_set), future, deliver))
            self._changed.notify()
        future.add_done_callback(self._count_down)
        future.add_done_callback(deliver)
        end = loop.time() + self._seconds
        try:
            while isinstance(outcome := await self._next_of(arrived, end - loop.time()), Partial):
                yield outcome
            if outcome.cancelled():
                raise RequestError("the server ends", status=503)
            yield outcome.result()
        finally:
            abandoned.set()
            future.cancel()

    async def _next_of(self, arrived: "asyncio.Queue[Result]", seconds: float) -> Result:
        try:
            return await asyncio.wait_for(arrived.get(), seconds)
        except TimeoutError as error:
            raise RequestError(
                f"the request took more than {self._seconds:g} s; ask for fewer tokens, or try again later",
                status=503,
            ) from error

    def close(self) -> None:
        """Drop work that waits."""
        with self._changed:
            self._is_closed = True
            dropped, self._jobs = self._jobs, deque()
            self._changed.notify()
        for job in dropped:
            job.future.cancel()

    def _work(self) -> None:
        while compute := self._next():
            jobs = self._take(compute)
            if jobs:
                _compute(compute, jobs, lambda compute=compute: self._take(compute, is_first=False))

    def _next(self) -> Compute[Any] | None:
        """Wait for work, and return what computes it; nothing once the worker is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._is_closed)
            return None if self._is_closed else self._jobs[0].compute

    def _take(self, compute: Compute[Any], *, is_first: bool = True) -> list[_Job]:
        """Return the work that waits to be computed together; nothing if other work waits, except at first."""
        with self._changed:
            others = deque(job for job in self._jobs if job.compute != compute)
            if others and not is_first:
                return []
            waiting = [job for job in self._jobs if job.compute == compute]
            self._jobs = others
        return [job for job in waiting if job.future.set_running_or_notify_cancel()]

    def _count_down(self, _: Future[Any]) -> None:
        with self._changed:
            self._number -= 1


def _compute(compute: Compute[Any], jobs: Sequence[_Job], take: Callable[[], list[_Job]]) -> None:
    """Compute jobs together; after a failure those that are left alone, since a request must not fail others.

    A job of which a part was delivered can't begin again, and fails with the others.

    Args:
      compute: Computes them.
      jobs: The first jobs.
      take: Returns those that have come since.
    """
    begun: list[_Job] = []
    delivered: set[int] = set()

    def arrivals() -> list[ModelRequest]:
        new = take() if begun else jobs
        begun.extend(new)
        return [job.request for job in new]

    try:
        for index, outcome in compute(arrivals):
            if isinstance(outcome, Partial):
                delivered.add(index)
                begun[index].deliver(outcome)
            elif isinstance(outcome, RequestError):
                begun[index].future.set_exception(outcome)
            else:
                begun[index].future.set_result(outcome)
    except Exception as error:
        left = [(index, job) for index, job in enumerate(begun or jobs) if not job.future.done()]
        for index, job in left:
            if len(begun or jobs) == 1 or index in delivered:
                job.future.set_exception(error)
            else:
                _compute(compute, [job], list)
