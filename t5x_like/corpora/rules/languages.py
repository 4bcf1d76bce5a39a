"""A rule that keeps pages in given languages."""

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.language_fasttext import FastText
from t5x_like.corpora.rules.language_langdetect import LangDetect
from t5x_like.corpora.rules.rule import Dropped, LanguagePrediction

UNKNOWN = "und"  # ISO 639-2 for an undetermined language, as in mC4


@dataclass(frozen=True, kw_only=True)
class Languages:
    """Keeps pages that are probably in one of the languages ``keep``, and sets their language.

    C4 keeps English with a probability of 0.99 by langdetect (Raffel et al. 2020, §2.2,
    https://arxiv.org/abs/1910.10683). Counts are named ``english-filter`` if only English is kept, otherwise
    ``language-filter``, as in the reference.

    Attributes:
      keep: Languages, such as ``("en",)``; ``zh`` includes ``zh-cn`` and ``zh-tw``. None keeps all pages; uncertain
        ones get the language ``und`` (mC4: Xue et al. 2021, §3.1, https://arxiv.org/abs/2010.11934).
      min_probability: Smallest probability of the language.
      identifier: ``LangDetect`` or ``FastText``.

    Raises:
      ValueError: ``keep`` is empty or one string, or ``min_probability`` isn't between 0 and 1.
    """

    NAME: ClassVar[str] = "language-filter"
    VERSION: ClassVar[int] = 1

    keep: tuple[str, ...] | None = ("en",)
    min_probability: float = 0.99
    identifier: LangDetect | FastText = field(default_factory=LangDetect)

    def __post_init__(self) -> None:
        if isinstance(self.keep, str) or (self.keep is not None and not self.keep):
            raise ValueError(
                f"Languages.keep is {self.keep!r}; give a tuple of codes such as ('en',), or None to keep all pages"
            )
        if not 0 <= self.min_probability <= 1:
            raise ValueError(
                f"Languages.min_probability is {self.min_probability}; give 0 to 1, such as 0.99"
            )
        if self.keep is not None:
            object.__setattr__(self, "keep", tuple(self.keep))  # gin gives lists
            if self.keep == ("en",):
                object.__setattr__(self, "NAME", "english-filter")

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page with its language, or the reason why it is dropped, such as ``filtered:low_confidence``.

        Args:
          page: The page.
          counts: Receives ``filtered:ignored_language-fr`` for each language that isn't kept, and ``passed:fr`` if more
            than one is kept.
        """
        predictions = self.identifier.predict(page.text)
        reason = self._doubt(predictions)
        if reason is not None:
            return Dropped(reason) if self.keep is not None else self._kept(page, UNKNOWN, counts)
        assert predictions
        language = predictions[0].language
        if self.keep is None or language in self.keep or language.split("-")[0] in self.keep:
            return self._kept(page, language, counts)
        counts[f"filtered:ignored_language-{language}"] += 1
        return Dropped("filtered:ignored_language")

    def fingerprint(self) -> str:
        """Return a hash of the identifier's own model file, or nothing."""
        return self.identifier.fingerprint() if isinstance(self.identifier, FastText) else ""

    def _doubt(self, predictions: list[LanguagePrediction] | None) -> str | None:
        if predictions is None:
            return self.identifier.EMPTY_REASON
        if not predictions:
            return "filtered:no_predictions"
        return "filtered:low_confidence" if predictions[0].probability < self.min_probability else None

    def _kept(self, page: Page, language: str, counts: Counter[str]) -> Page:
        if self.keep is None or len(self.keep) > 1:
            counts[f"passed:{language}"] += 1
        return page._replace(language=language)
