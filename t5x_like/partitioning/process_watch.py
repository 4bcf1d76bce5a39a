"""Finds the process of a run that died or hangs, and ends the others, which would wait for it forever."""

import contextlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

log = logging.getLogger(__name__)

LOST_PROCESS = 75  # exit code; EX_TEMPFAIL of sysexits.h: the same command may succeed later
# Exit codes of mistakes, and of numbers that aren't finite: the same command repeats them.
_CERTAIN_TO_REPEAT = (2, 3)
READING_DATA = "reading data"

_SECONDS_BETWEEN_SIGNS = 1.0
_PATIENCE = (
    40  # times as long where one process may have more to do: compiling what others have cached takes minutes
)


class LostProcess(NamedTuple):
    """A process without which the others can't go on.

    Attributes:
      index: Number of the process.
      message: Sentence about it.
      exit_code: Exit code of the others.
    """

    index: int
    message: str
    exit_code: int = LOST_PROCESS


class ProcessSign(NamedTuple):
    """A sign of life.

    Attributes:
      number: Signs given so far.
      position: Activities begun so far. All processes begin the same ones in the same order.
      activity: The one it is in.
      exit_code: Exit code of a process that fails; ``None`` otherwise.
      lost: The ``LostProcess`` that it gives up; empty otherwise.
    """

    number: int = 0
    position: int = 0
    activity: str = "starting"
    exit_code: int | None = None
    lost: Sequence = ()


class SignHistory:
    """The newest sign of each process, and when it changed by this process's clock.

    Args:
      hosts: Host and process id of each process, for people.
      timeout: Seconds without a sign, or behind the others in reading data, after which a process is lost.
      now: The time.
      watched: Numbers of the processes whose signs are seen; all by default.
    """

    def __init__(self, hosts: Sequence[str], timeout: float, now: float, watched: Sequence[int] = ()):
        self._hosts, self._timeout = hosts, timeout
        self._signs = dict.fromkeys(watched or range(len(hosts)), ProcessSign())
        self._heard = dict.fromkeys(self._signs, now)
        self._behind: dict[int, float] = {}

    def add(self, index: int, sign: ProcessSign, now: float) -> None:
        """Note the sign that a process shows.

        Args:
          index: Index of the process.
          sign: Last sign that it wrote.
          now: Time in seconds.
        """
        before = self._signs[index]
        self._signs[index] = sign
        if sign.number != before.number:
            self._heard[index] = now
        if sign.position != before.position:
            self._behind.pop(index, None)

    def forget_times(self, now: float) -> None:
        """Start all clocks again: this process itself was suspended."""
        self._heard = dict.fromkeys(self._heard, now)
        self._behind = dict.fromkeys(self._behind, now)

    def lost(self, now: float) -> LostProcess | None:
        """Return a process that failed, gave no sign, or keeps the others waiting for too long."""
        for index, sign in self._signs.items():
            if sign.lost:
                return LostProcess(*sign.lost)
            if sign.exit_code is not None:
                named = self._named(index, f"ended with exit code {sign.exit_code}")
                is_certain = sign.exit_code in _CERTAIN_TO_REPEAT
                return named._replace(exit_code=sign.exit_code) if is_certain else named
            if now - self._heard[index] >= self._timeout:
                return self._named(index, f"gave no sign for {now - self._heard[index]:.0f} s")
        furthest = max(sign.position for sign in self._signs.values())
        for index, sign in self._signs.items():
            if sign.position == furthest:
                continue
            seconds = now - self._behind.setdefault(index, now)
            if seconds >= self._timeout * (1 if sign.activity.startswith(READING_DATA) else _PATIENCE):
                return self._named(index, f"has kept the others waiting for {seconds:.0f} s, {sign.activity}")
        return None

    def _named(self, index: int, fate: str) -> LostProcess:
        return LostProcess(index, f"process {index} of {len(self._hosts)} ({self._hosts[index]}) {fate}")


class ProcessWatch:
    """Ends this process when another is lost. Process 0 watches all, and the others watch process 0.

    Args:
      index: Number of this process.
      hosts: Host and process id of each process, for people.
      timeout: Seconds after which a process is lost; see ``SignHistory``.
      exchange: Shows this process's sign to the others and returns signs by number: on process 0 those of all,
        elsewhere that of process 0; ``None`` when the processes have parted. Raises RuntimeError if process 0, which
        keeps the signs, can't be reached.
    """

    def __init__(
        self,
        index: int,
        hosts: Sequence[str],
        timeout: float,
        exchange: Callable[[str], dict[int, str] | None],
    ):
        self._index, self._exchange = index, exchange
        self._interval = min(_SECONDS_BETWEEN_SIGNS, timeout / 10)
        self._sign = ProcessSign()
        watched = range(len(hosts)) if index == 0 else (0, index)
        self._history = SignHistory(hosts, timeout, time.monotonic(), watched)
        self._lock = threading.RLock()
        self._parted = threading.Event()
        # Two threads: the exchange itself may hang if process 0 does.
        for work in (self._exchange_signs, self._look_for_lost):
            threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True).start()

    def begin(self, activity: str) -> None:
        """Tell the others what this process begins to do."""
        with self._lock:
            self._sign = self._sign._replace(position=self._sign.position + 1, activity=activity)

    def fail(self, exit_code: int) -> None:
        """Tell the others that this process fails, and end it."""
        with self._lock:
            self._sign = self._sign._replace(exit_code=exit_code)
        self._leave(exit_code)

    def _exchange_once(self) -> None:
        with self._lock:
            self._sign = self._sign._replace(number=self._sign.number + 1)
            mine = json.dumps(self._sign)
        signs = self._exchange(mine)
        if signs is None:
            self._parted.set()
            return
        with self._lock:
            for index, sign in (signs | {self._index: mine}).items():
                self._history.add(index, ProcessSign(*json.loads(sign)), time.monotonic())

    def _exchange_signs(self) -> None:
        while not self._parted.is_set():
            with contextlib.suppress(RuntimeError):  # process 0 can't be reached; it will be missed
                self._exchange_once()
            time.sleep(self._interval)

    def _look_for_lost(self) -> None:
        while not self._parted.is_set():
            before = time.monotonic()
            time.sleep(self._interval)
            now = time.monotonic()
            with self._lock:
                if now - before > 5 * self._interval:
                    self._history.forget_times(now)
                lost = self._history.lost(now)
                if lost is None or self._sign.exit_code is not None:
                    continue
                self._sign = self._sign._replace(lost=lost)
            # Others may fail at the same moment, so that one of them must be chosen to speak.
            if self._index == (1 if lost.index == 0 else 0):
                log.error(
                    "t5x-like: %s; this run ends, and the same command continues it from its last checkpoint",
                    lost.message,
                )
            self._leave(lost.exit_code)

    def _leave(self, exit_code: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        if self._index == 0:  # it keeps the signs, from which the others learn why; without it they abort
            time.sleep(4 * self._interval)
        elif not self._sign.lost:
            with contextlib.suppress(RuntimeError):
                self._exchange_once()
        os._exit(exit_code)
