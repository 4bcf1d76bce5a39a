"""Protocols of rules for single pages and of language identifiers."""

from collections import Counter
from typing import ClassVar, NamedTuple, Protocol

from t5x_like.corpora.pages.crawled_page import Page


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


class Guess(NamedTuple):
    """A language a text may be in."""

    language: str  # as the identifier spells it: ``en``, ``zh-cn``
    probability: float  # 0 to 1


class LanguageIdentifier(Protocol):
    """Names languages. A small frozen dataclass: its tables are loaded on first use, once a process.

    ``SPEECHLESS`` is the reason that pages in which it finds nothing to go by are dropped for.
    """

    SPEECHLESS: ClassVar[str]

    def guesses(self, text: str) -> list[Guess] | None:
        """Languages, the likeliest first; ``None`` if nothing in ``text`` (digits alone, say) tells of a language."""
        ...


def missing_library(name: str, error: ImportError) -> ValueError:
    """What the user reads where a library of the extra ``corpora`` is not installed."""
    return ValueError(f"{name} is needed, but {error}; pip install 't5x-like[corpora]'")
