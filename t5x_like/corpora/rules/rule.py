"""What all rules for single pages have in common."""

from collections import Counter
from typing import ClassVar, NamedTuple, Protocol

from t5x_like.corpora.pages.page import Page


class Dropped(NamedTuple):
    """A page that a rule doesn't keep, and why: ``filtered:too_few_sentences``."""

    reason: str


class PageRule(Protocol):
    """Decides about one page by itself. Rules are frozen dataclasses: what they need besides is loaded on first use.

    ``NAME`` heads their counts in manifests and reports; ``VERSION`` rises when the same fields mean something else.
    """

    NAME: ClassVar[str]
    VERSION: ClassVar[int]

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """The page as it goes on, or why it doesn't; ``counts`` gets what was seen inside it, a line's verdict each.

        The page's own fate is counted by the caller. A name that begins with a hyphen goes on from ``NAME``:
        ``-en:passed`` of ``badwords-filter`` is ``badwords-filter-en:passed``.
        """
        ...
