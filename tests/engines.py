"""An engine for tests that hands all work of a stage to a function."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any


class CallingEngine:
    """Calls ``run_all(function, work)`` and waits, as the engine of a cluster."""

    def __init__(self, run_all: Callable[[Callable[[Any], object], Sequence[Any]], None]) -> None:
        self._run_all = run_all

    @contextlib.contextmanager
    def start(self, function, *, num_pieces, on_report=None):
        def run(work):
            self._run_all(function, work)
            yield from work

        yield run


def one_after_the_other(function, work):
    """Run all work here."""
    for piece in work:
        function(piece)
