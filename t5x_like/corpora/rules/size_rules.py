"""Rules about the size of a page: its characters, lines and paragraphs."""

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped


@dataclass(frozen=True, kw_only=True)
class MaxLength:
    """Drops long pages.

    Attributes:
      chars: Most characters; 190,000 in C4 (TensorFlow Datasets, text/c4_utils.py).

    Raises:
      ValueError: ``chars`` isn't positive.
    """

    NAME: ClassVar[str] = "too-long-filter"
    VERSION: ClassVar[int] = 1

    chars: int = 190_000

    def __post_init__(self) -> None:
        if self.chars < 1:
            raise ValueError(f"MaxLength.chars is {self.chars}; no page would be left. Give at least 1.")

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page, or ``filtered:too_long``."""
        del counts
        return page if len(page.text) <= self.chars else Dropped("filtered:too_long")


_NUM_LONGEST = 3


@dataclass(frozen=True, kw_only=True)
class Paragraphs:
    """Keeps pages with enough lines and a long enough third-longest line.

    mC4's rule (Xue et al. 2021, §3.1, https://arxiv.org/abs/2010.11934), as TensorFlow Datasets applies it: only
    ``\\n`` separates lines, empty lines count, and the third longest line is examined for any ``min_lines`` (the last
    one, if there are fewer).

    Attributes:
      min_lines: Fewest lines.
      min_chars: Fewest characters of the third longest line.

    Raises:
      ValueError: A threshold isn't positive.
    """

    NAME: ClassVar[str] = "paragraph-filter"
    VERSION: ClassVar[int] = 1

    min_lines: int = 3
    min_chars: int = 200

    def __post_init__(self) -> None:
        for name in ("min_lines", "min_chars"):
            if getattr(self, name) < 1:
                raise ValueError(f"Paragraphs.{name} is {getattr(self, name)}; it must be at least 1")

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page, or ``filtered:too_few_paragraphs``."""
        del counts
        lengths = [len(line) for line in page.text.split("\n")]
        if len(lengths) < self.min_lines or min(heapq.nlargest(_NUM_LONGEST, lengths)) < self.min_chars:
            return Dropped("filtered:too_few_paragraphs")
        return page
