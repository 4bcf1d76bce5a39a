"""Output on a terminal, which control characters of data must not steer."""

import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

# C0 but for tab and newline, DEL, C1, and what embeds, overrides or isolates a direction of writing
# (Unicode Standard Annex 9, §2).
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# A progress bar begins its line again, or moves between the lines of several bars.
_MOVES_OF_BARS = re.compile(r"\r|(?:\n|\x1b\[A)+\Z")


def escaped(text: str) -> str:
    r"""Write control characters and overrides of direction as ``\x1b``; tabs and newlines stay.

    >>> print(escaped("\x1b[31mred"))
    \x1b[31mred
    """
    return _CONTROLS.sub(lambda control: control[0].encode("unicode_escape").decode(), text)


class TerminalStream:
    """A terminal that shows the control characters of a text instead of obeying them.

    Whatever else a stream offers is that of the terminal.

    Attributes:
      terminal: Stream that obeys control characters, for colors.
    """

    def __init__(self, terminal: TextIO, *, has_bars: bool = False) -> None:
        """Wrap a terminal.

        Args:
          terminal: The stream.
          has_bars: Progress bars are drawn on it: a carriage return that begins a write, and a write of nothing but
            moves between lines, are obeyed.
        """
        self.terminal, self._has_bars = terminal, has_bars

    def write(self, text: str) -> int:
        """Write a text with its control characters escaped; return the length of the text."""
        move = _MOVES_OF_BARS.match(text) if self._has_bars else None
        start = move.end() if move else 0
        self.terminal.write(text[:start] + escaped(text[start:]))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


def escape_on_terminals() -> None:
    """Escape control characters from now on, wherever standard output or standard error is a terminal.

    Messages, log records, warnings and tracebacks hold names and cells of files. Files and pipes get them unchanged.
    """
    if sys.stdout.isatty():
        sys.stdout = cast(TextIO, TerminalStream(sys.stdout))
    if sys.stderr.isatty():
        sys.stderr = cast(TextIO, TerminalStream(sys.stderr, has_bars=True))


def colored_output() -> TextIO:
    """Return standard output for a text that holds colors, and whose data are escaped already."""
    return sys.stdout.terminal if isinstance(sys.stdout, TerminalStream) else sys.stdout
