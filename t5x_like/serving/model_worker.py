"""One thread that computes for all requests, and their queue."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from t5x_like.serving.request_fields import RequestError

Result = TypeVar("Result")


class ModelWorker:
    """Runs work one after the other, in the order of requests.

    Args:
      waiting: Requests that may wait for the one in work.
      seconds: Time of a request, waiting included.
    """

    def __init__(self, *, waiting: int, seconds: float):
        self._most, self._seconds = waiting + 1, seconds
        self._lock, self._number = threading.Lock(), 0
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")

    @property
    def num_requests(self) -> int:
        """Number of requests that are in work or waiting."""
        return self._number

    async def run(self, work: Callable[[Callable[[], bool]], Result]) -> Result:
        """Return what ``work`` returns.

        Args:
          work: Called with a function that returns True when nobody waits for the result any more.

        Raises:
          RequestError: Too many requests wait, or it took too long.
        """
        with self._lock:
            if self._number >= self._most:
                raise RequestError(f"{self._number} requests are in work; try again later", status=429)
            self._number += 1
        cancelled = threading.Event()
        future = self._executor.submit(work, cancelled.is_set)
        future.add_done_callback(self._count_down)
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise RequestError(
                f"the request took more than {self._seconds:g} s; ask for fewer tokens, or try again later",
                status=503,
            ) from error
        finally:
            cancelled.set()

    def close(self) -> None:
        """Drop work that waits."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _count_down(self, _: Future[Any]) -> None:
        with self._lock:
            self._number -= 1
