"""Progress of long operations: a bar with the remaining time on a terminal, a line every 30 seconds elsewhere."""

import sys
import threading
import time
from typing import Self, TextIO

from tqdm import tqdm

_BAR_DELAY = 1.0  # seconds: shorter operations show no bar
_REFRESH_SECONDS = 1.0  # of the bar's elapsed and remaining time


class Progress:
    """Shows the amount done of an operation, as a context manager; threads may share it.

    A thread of its own updates the display, so a line appears and the bar's time runs even while nothing is finished.
    """

    def __init__(
        self,
        label: str,
        total: int | None,
        unit: str,
        *,
        shown: bool = True,
        stream: TextIO | None = None,
        seconds_between_lines: float = 30.0,
    ) -> None:
        """Prepare the display.

        Args:
          label: Name of the operation.
          total: Units in all; None if unknown.
          unit: Name of the units; "bytes" is shown as MB and GB.
          shown: False shows nothing.
          stream: Output; None for standard error.
          seconds_between_lines: Longest time without a line where there is no terminal.
        """
        self._stream = sys.stderr if stream is None else stream
        self._label, self._total, self._unit = label, total, unit
        self._done = self._before = 0
        self._start = self._last_line = time.monotonic()
        is_bytes = unit == "bytes"
        self._bar = tqdm(
            desc=label,
            total=total,
            unit="B" if is_bytes else f" {unit}",
            unit_scale=is_bytes,
            file=self._stream,
            disable=not shown or not self._stream.isatty(),
            delay=_BAR_DELAY,
            smoothing=0,  # the mean rate: work comes in pieces of very different sizes
        )
        self._seconds = seconds_between_lines if shown and self._bar.disable else None
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True) if shown else None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Start to update the display by itself, where no ``with`` statement does."""
        if self._ticker is not None:
            self._ticker.start()
        return self

    def close(self) -> None:
        """Leave the bar as it is, and stop updating it."""
        self._ended.set()
        if self._ticker is not None:
            self._ticker.join()
        self._bar.close()

    def reach(self, done: int) -> None:
        """Show that ``done`` units are done."""
        with self._lock:
            self._bar.update(done - self._done)
            self._done = done
            self._print_line_if_due()

    def add(self, more: int) -> None:
        """Show that ``more`` units are done."""
        with self._lock:
            self.reach(self._done + more)

    def skip(self, done: int) -> None:
        """Count ``done`` units as done earlier, so that rates leave them out."""
        with self._lock:
            self._bar.initial = done
            self._bar.n = self._done = self._before = done
            self._start = time.monotonic()

    def relabel(self, label: str) -> None:
        """Change the label."""
        with self._lock:
            self._label = label
            self._bar.set_description(label, refresh=False)

    def say(self, text: str) -> None:
        """Print one line above the bar; it counts as the line that is due."""
        self._last_line = time.monotonic()
        self._bar.write(text, file=self._stream)
        self._stream.flush()

    def _tick(self) -> None:
        while not self._ended.wait(self._seconds_to_wait()):
            with self._lock:
                self._print_line_if_due()
                if time.monotonic() - self._start >= _BAR_DELAY:
                    self._bar.refresh()

    def _seconds_to_wait(self) -> float:
        if self._seconds is None:
            return _REFRESH_SECONDS
        return max(self._last_line + self._seconds - time.monotonic(), 0.01)

    def _print_line_if_due(self) -> None:
        now = time.monotonic()
        if self._seconds is not None and now - self._last_line >= self._seconds:
            self.say(f"{self._label}: {self._describe(now - self._start)}")

    def _describe(self, seconds: float) -> str:
        rate = (self._done - self._before) / max(seconds, 1e-9)
        words = [_amount(self._done, self._unit)]
        if self._total:
            words = [f"{words[0]} of {_amount(self._total, self._unit)} ({self._done / self._total:.0%})"]
        if rate >= 1:
            words.append(f"{_amount(rate, self._unit)}/s")
        if self._total and rate:
            words.append(f"{_time((self._total - self._done) / rate)} left")
        else:
            words.append(f"{_time(seconds)} elapsed")
        return ", ".join(words)


def _amount(number: float, unit: str) -> str:
    if unit != "bytes":
        return f"{number:,.0f} {unit}"
    return f"{number / 1e9:.2f} GB" if number >= 1e9 else f"{number / 1e6:.1f} MB"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    minutes = seconds / 60
    return f"{minutes / 60:.1f} h" if minutes >= 90 else f"{minutes:.0f} min"
