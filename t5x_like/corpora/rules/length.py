"""Pages that are too long to be pages."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from t5x_like.corpora.pages.page import Page
from t5x_like.corpora.rules.rule import Dropped


@dataclass(frozen=True, kw_only=True)
class MaxLength:
    """Drops pages of more than ``chars`` characters, 190,000 in C4 (TensorFlow Datasets, text/c4_utils.py).

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
        """The page itself, or ``filtered:too_long``."""
        del counts
        return page if len(page.text) <= self.chars else Dropped("filtered:too_long")
