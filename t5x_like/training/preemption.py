"""Signals that ask a run to stop: it saves and leaves."""

import os
import signal
import threading
from types import FrameType
from typing import Any

import jax
from jax.experimental import multihost_utils

# What schedulers send before they kill (SIGUSR1: SLURM's --signal), what a closed terminal sends, and Ctrl-C.
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)
_INTERRUPTS_THAT_KILL = 3  # the first one asks; the second may come from impatience while the run saves


class StopRequestedError(Exception):
    """A signal asked the run to stop while it waited, or did what can be left out."""


class Preemption:
    """Turns signals into a request to stop, which the training loop polls.

    SIGTERM, SIGHUP, SIGUSR1 and Ctrl-C ask. Repeated signals change nothing, because the run is saving then; only the
    third Ctrl-C ends the process at once. A signal that is ignored when the process starts, as with ``nohup``, stays
    ignored.

    Before ``listen`` is called signals end the process at once: nothing would be lost.
    """

    def __init__(self) -> None:
        self.requested = False
        self._num_interrupts = self._num_polls = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Preemption":
        return self

    def __exit__(self, *_: object) -> None:
        for signal_number, handler in self._before.items():
            signal.signal(signal_number, handler)
        self._before = {}

    def listen(self) -> None:
        """Take signals from now on, until the context ends."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        for signal_number in _SIGNALS:
            if signal.getsignal(signal_number) == signal.SIG_IGN:
                continue
            if jax.process_count() == 1:
                self._before[signal_number] = signal.signal(signal_number, self._on_signal)
            elif signal_number in (signal.SIGHUP, signal.SIGUSR1):
                # JAX's own handler takes SIGTERM, and informs all processes.
                self._before[signal_number] = signal.signal(signal_number, _pass_on)

    def poll(self) -> bool:
        """Return whether to stop now.

        Several processes agree on it through JAX's coordinator. All must call this equally often.
        """
        if jax.process_count() == 1:
            return self.requested
        self._num_polls += 1
        return multihost_utils.reached_preemption_sync_point(self._num_polls)

    def check(self) -> None:
        """Raise ``StopRequestedError`` if the run should stop now; see ``poll``."""
        if self.poll():
            raise StopRequestedError

    def check_alone(self) -> None:
        """Raise ``StopRequestedError`` if a signal came; never with several processes, whose waits differ."""
        if self.requested and jax.process_count() == 1:
            raise StopRequestedError

    def _on_signal(self, signal_number: int, _frame: FrameType | None) -> None:
        self.requested = True
        self._num_interrupts += signal_number == signal.SIGINT
        if self._num_interrupts >= _INTERRUPTS_THAT_KILL:
            signal.signal(signal_number, signal.SIG_DFL)
            signal.raise_signal(signal_number)


def _pass_on(_number: int, _frame: FrameType | None) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
