"""A rule that joins the lines of plain text that was broken at a fixed width."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped

_NEW_ITEM = re.compile(r"(?:[-*+•o]|\(?(?:\d{1,3}|[A-Za-z])[.)])\s")
_COLUMNS = re.compile(r"\S(?: {4}|\t)")  # a table, not a line of words


@dataclass(frozen=True, kw_only=True)
class JoinWrappedLines:
    """Joins the lines of a paragraph, so that later rules see sentences where files have lines of 70 characters.

    A page counts as wrapped if nine tenths of its lines have at most ``max_width`` characters and its longer lines are
    at least ``min_width`` long. A line continues the one before if that has no room for the next word, has the same
    indentation (or is the first of its paragraph), and neither looks like a row of a table or the start of a list's
    item. Text of HTML and Markdown, whose paragraphs are lines already, stays as it is.

    Attributes:
      min_width: Shortest width, in characters.
      max_width: Longest width, in characters.
      slack: Fraction of the width that may stay empty although the next word would fit.

    Raises:
      ValueError: The widths or the slack are out of range.
    """

    NAME: ClassVar[str] = "join-lines"
    VERSION: ClassVar[int] = 1

    min_width: int = 50
    max_width: int = 100
    slack: float = 0.1

    def __post_init__(self) -> None:
        if not 1 <= self.min_width <= self.max_width:
            raise ValueError(
                f"JoinWrappedLines.min_width is {self.min_width}; give 1 to max_width ({self.max_width})"
            )
        if not 0 <= self.slack < 1:
            raise ValueError(f"JoinWrappedLines.slack is {self.slack}; give 0 or more, and less than 1")

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page with one line for each paragraph; ``counts`` gets ``joined``, the lines that are gone."""
        if page.content_type.startswith(("text/html", "text/markdown", "application/xhtml")):
            return page
        lines = [line.expandtabs().rstrip() for line in page.text.splitlines()]
        width = self._width(lines)
        if width is None:
            return page
        joined = self._joined(lines, width * (1 - self.slack))
        if len(joined) == len(lines):
            return page
        counts["joined"] += len(lines) - len(joined)
        return page._replace(text="\n".join(joined))

    def _width(self, lines: list[str]) -> int | None:
        lengths = sorted(len(line) for line in lines if line)
        if not lengths:
            return None
        longer = lengths[len(lengths) * 9 // 10]
        return longer if self.min_width <= longer <= self.max_width else None

    def _joined(self, lines: list[str], full: float) -> list[str]:
        joined: list[str] = []
        last = ""  # the last line as the page has it
        is_first = True  # of its paragraph
        for line in lines:
            if joined and _continues(last, line, full, is_first=is_first):
                joined[-1] += " " + line.strip()
                is_first = False
            else:
                joined.append(line)
                is_first = True
            last = line
        return joined


def _continues(last: str, line: str, full: float, *, is_first: bool) -> bool:
    text = line.strip()
    if not last or not text or _NEW_ITEM.match(text):
        return False
    if len(last) + 1 + len(text.split(None, 1)[0]) <= full:
        return False
    if not is_first and _indentation(last) != _indentation(line):
        return False
    return not _COLUMNS.search(last.strip()) and not _COLUMNS.search(text)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
