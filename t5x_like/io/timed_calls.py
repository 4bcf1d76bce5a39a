"""Calls of users' functions, which may hang."""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def call_in_time(function: Callable[[], Result], seconds: float) -> Result:
    """Return what a function returns, or raise what it raises, ``SystemExit`` too.

    Args:
      function: The function; it runs in a thread, which stays behind if it hangs.
      seconds: Time that it may take.

    Raises:
      TimeoutError: It takes longer.
    """
    results: queue.SimpleQueue[tuple[Result, None] | tuple[None, BaseException]] = queue.SimpleQueue()

    def call() -> None:
        try:
            results.put((function(), None))
        except BaseException as error:  # sys.exit() too, which would end this thread without a word
            results.put((None, error))

    # A daemon doesn't keep the program from ending.
    threading.Thread(target=call, name="timed call", daemon=True).start()
    try:
        result, error = results.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no result within {seconds:g} seconds") from None
    if error is not None:
        raise error
    return result  # pyright: ignore[reportReturnType] - None is a result, too
