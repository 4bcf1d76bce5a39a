"""The interface of engines, which call a function with many pieces of work.

Functions return nothing: they write files to a place that all machines can reach. A piece may be processed twice.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Function = Callable[[Any], object]
RunWork = Callable[[Sequence[Any]], Generator[Any]]


class Engine(Protocol):
    """Runs independent pieces of work."""

    def start(
        self, function: Function, *, num_pieces: int, on_report: Callable[[Any], None] | None = None
    ) -> AbstractContextManager[RunWork]:
        """Return a context whose value runs pieces of work, and yields each when it is finished.

        Args:
          function: Picklable function of a piece of work.
          num_pieces: Most pieces that come at once.
          on_report: Called with values that the function reports, where the engine can pass them on.

        Raises:
          ValueError: The engine can't be reached; later, the function's own, or a worker ended too often.
        """
        ...
