"""Progress of long work: a bar with the time left on a terminal, a line every half minute elsewhere."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

from tqdm import tqdm


class Progress:
    """Shows how much of ``total`` (None if unknown) is done; silent unless ``shown``.

    The unit "bytes" is shown in MB and GB, others as they are.
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
        self._seconds = seconds_between_lines
        self._stream = sys.stderr if stream is None else stream
        self._label, self._total, self._unit, self._shown = label, total, unit, shown
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
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the bar as it is, and prints no more of it."""
        self._bar.close()

    def reach(self, done: int) -> None:
        """Shows that ``done`` units are done."""
        self._bar.update(done - self._done)
        self._done = done
        self.remind()

    def remind(self) -> None:
        """Prints a line if there is no terminal, and the last line is too long ago."""
        now = time.monotonic()
        if self._shown and self._bar.disable and now - self._last_line >= self._seconds:
            self.say(f"{self._label}: {self._in_words(now - self._start)}")

    def add(self, more: int) -> None:
        """Shows that ``more`` units are done."""
        self.reach(self._done + more)

    def skip(self, done: int) -> None:
        """Counts ``done`` units as done before, so that rates leave them out."""
        self._bar.initial = done
        self._bar.n = self._done = self._before = done
        self._start = time.monotonic()
        self._bar.refresh()

    def relabel(self, label: str) -> None:
        """Changes the label."""
        self._label = label
        self._bar.set_description(label)

    def say(self, text: str) -> None:
        """Prints one line without tearing the bar."""
        self._last_line = time.monotonic()
        self._bar.write(text, file=self._stream)
        self._stream.flush()

    def _in_words(self, seconds: float) -> str:
        rate = (self._done - self._before) / max(seconds, 1e-9)
        words = [_amount(self._done, self._unit)]
        if self._total:
            words = [f"{words[0]} of {_amount(self._total, self._unit)} ({self._done / self._total:.0%})"]
        if rate >= 1:
            words.append(f"{_amount(rate, self._unit)}/s")
        if self._total and rate:
            words.append(f"{_time((self._total - self._done) / rate)} left")
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
