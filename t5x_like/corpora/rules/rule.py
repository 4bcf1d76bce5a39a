"""Protocols of rules for single pages and of language identifiers."""

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from t5x_like.corpora.pages.crawled_page import Page


class Dropped(NamedTuple):
    """A page that a rule drops.

    Attributes:
      reason: Such as ``filtered:too_few_sentences``.
    """

    reason: str


class PageRule(Protocol):
    """Decides about one page by itself. Rules are frozen dataclasses that load their resources on first use.

    Attributes:
      NAME: Name in manifests and reports.
      VERSION: Increases when the same fields mean something else.
    """

    NAME: ClassVar[str]
    VERSION: ClassVar[int]

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page, changed or not, or ``Dropped``.

        Args:
          page: The page.
          counts: Receives counts inside the page, such as the decision about each line; the caller counts the page
            itself. A name that begins with a hyphen continues ``NAME``: ``-en:passed`` of ``badwords-filter`` is
            ``badwords-filter-en:passed``.
        """
        ...


@runtime_checkable
class BatchRule(PageRule, Protocol):
    """A rule that is faster for many pages at once, such as a model on an accelerator."""

    def apply_batch(self, pages: Sequence[Page], counts: Sequence[Counter[str]]) -> list[Page | Dropped]:
        """Return for each page what ``apply`` returns.

        Args:
          pages: Pages, of one file or of one partition.
          counts: Receive the counts inside of each page.
        """
        ...


class LanguagePrediction(NamedTuple):
    """A language that a text may be in.

    Attributes:
      language: Language as the identifier spells it: ``en``, ``zh-cn``.
      probability: 0 to 1.
    """

    language: str
    probability: float


class LanguageIdentifier(Protocol):
    """Identifies languages. Identifiers are small frozen dataclasses that load their tables once, on first use.

    Attributes:
      EMPTY_REASON: Reason for dropping pages without any usable text.
    """

    EMPTY_REASON: ClassVar[str]

    def predict(self, text: str) -> list[LanguagePrediction] | None:
        """Return languages, the most likely first; None if nothing in ``text`` (say, only digits) indicates one."""
        ...
