"""Text form of page explanations: aligned, colored on a terminal, with a summary."""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

from t5x_like.corpora.rules.c4_rules import PASSED
from t5x_like.corpora.rules.cleaning import LineVerdict
from t5x_like.corpora.rules.page_explanation import KEPT, NOT_REACHED, ExplainedPage, RuleVerdict

_GREEN, _RED, _FAINT, _BOLD, _PLAIN = "\033[32m", "\033[31m", "\033[2m", "\033[1m", "\033[0m"
_ENOUGH = 20  # smallest number of columns for a line's text


@dataclass(kw_only=True)
class PageExplanationText:
    """Formatter and counter of explained pages.

    Attributes:
      colors: Use ANSI colors.
      width: Columns to cut lines to; ``None`` leaves them whole.
    """

    colors: bool = False
    width: int | None = None
    _fates: Counter[str] = field(default_factory=Counter)
    _lines: Counter[str] = field(default_factory=Counter)

    @classmethod
    def for_stream(cls, stream: TextIO) -> "PageExplanationText":
        """Use colors and the width of a terminal if the stream is one; obeys ``NO_COLOR`` (https://no-color.org)."""
        if not stream.isatty():
            return cls()
        return cls(colors=not os.environ.get("NO_COLOR"), width=shutil.get_terminal_size().columns)

    def page(self, name: str, explanation: ExplainedPage) -> str:
        """Return a page's fate with the verdicts of its rules and on its lines, and an empty line.

        Args:
          name: URL or position of the page.
          explanation: Decisions on the page.
        """
        self._fates[explanation.reason or KEPT] += 1
        self._lines.update(line.decision for line in explanation.lines)
        fate = "kept" if explanation.kept else f"dropped, {explanation.reason}"
        head = self._colored(printable(name), _BOLD) + "  " + self._by_fate(fate, good=explanation.kept)
        return "\n".join([head, *self._rules(explanation.rules), *self._verdicts(explanation.lines), ""])

    def summary(self) -> str:
        """Return the numbers of pages and lines by fate."""
        return "\n".join([*_table("page", self._fates, KEPT), *_table("line", self._lines, PASSED)])

    def _rules(self, rules: Sequence[RuleVerdict]) -> list[str]:
        names = max((len(rule.name) for rule in rules), default=0)
        decisions = max((len(rule.decision) for rule in rules), default=0)
        rows = []
        for rule in rules:
            seen = ", ".join(f"{count:,} {name}" for name, count in rule.counts.items())
            padding = " " * (decisions - len(rule.decision))
            decision = (
                self._colored(rule.decision, _FAINT)
                if rule.decision == NOT_REACHED
                else self._by_fate(rule.decision, good=rule.decision == KEPT)
            )
            rows.append(f"  {rule.name:<{names}}  {decision}{padding}  {seen}".rstrip())
        return rows

    def _verdicts(self, lines: Sequence[LineVerdict]) -> list[str]:
        """Return decision, number of sentences, and text of each line; also the changed text, if it differs."""
        widest = max((len(line.decision) for line in lines), default=0)
        columns = None if self.width is None else max(self.width - widest - 9, _ENOUGH)
        rows = []
        for line in lines:
            decision = self._by_fate(f"{line.decision:<{widest}}", good=line.decision == PASSED)
            sentences = "" if line.sentences is None else str(line.sentences)
            rows.append(f"    {decision} {sentences:>3} {_cut(printable(line.line), columns)}".rstrip())
            if line.out is not None and line.out != line.line.strip():
                rows.append(f"    {'becomes':>{widest}}     {_cut(printable(line.out), columns)}")
        return rows

    def _by_fate(self, text: str, *, good: bool) -> str:
        return self._colored(text, _GREEN if good else _RED)

    def _colored(self, text: str, color: str) -> str:
        return f"{color}{text}{_PLAIN}" if self.colors else text


def printable(text: str) -> str:
    r"""Escape control and format characters, which could steer a terminal, as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _cut(text: str, columns: int | None) -> str:
    return text if columns is None or len(text) <= columns else text[: columns - 1] + "…"


def _table(what: str, counts: Counter[str], good: str) -> list[str]:
    total = counts.total()
    plural = "" if total == 1 else "s"
    head = f"{total:,} {what}{plural}, {counts[good]:,} kept"
    width = max((len(name) for name in counts), default=0)
    others = sorted((name for name in counts if name != good), key=lambda name: (-counts[name], name))
    return [head, *(f"  {name:<{width}}  {counts[name]:,}" for name in others)]
