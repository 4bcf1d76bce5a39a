"""Signals that stop a run: the first SIGTERM or Ctrl-C saves and leaves, the second leaves at once."""

import signal
import threading
from types import FrameType
from typing import Any

import jax
from jax.experimental import multihost_utils


class Preemption:
    """Catches SIGTERM and Ctrl-C while it is open; the loop polls it at every step.

    Cluster schedulers send SIGTERM some seconds before they kill: that time is for saving.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Preemption":
        # With several processes JAX's own handler takes SIGTERM and spreads the word.
        if threading.current_thread() is threading.main_thread() and jax.process_count() == 1:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def requested_at(self, step: int) -> bool:
        """Return whether to stop after ``step``; several processes agree on it through JAX's coordinator."""
        if jax.process_count() == 1:
            return self.requested
        return multihost_utils.reached_preemption_sync_point(step)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.requested:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.requested = True
