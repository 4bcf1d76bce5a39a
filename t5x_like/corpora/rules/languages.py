"""Which languages a corpus keeps."""

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.language_fasttext import FastText
from t5x_like.corpora.rules.language_langdetect import LangDetect
from t5x_like.corpora.rules.rule import Dropped, Guess

UNKNOWN = "und"  # ISO 639-2 for an undetermined language, as in mC4


@dataclass(frozen=True, kw_only=True)
class Languages:
    """Keeps pages that are, with ``min_probability``, in one of the languages ``keep``, and writes it on them.

    C4 keeps English of which langdetect is sure to 0.99 (Raffel et al. 2020, §2.2, https://arxiv.org/abs/1910.10683).
    ``keep=None`` drops nothing and names every page's language, ``und`` where the identifier is less sure than that
    (mC4: Xue et al. 2021, §3.1, https://arxiv.org/abs/2010.11934). ``zh`` stands for ``zh-cn`` and ``zh-tw`` too.

    The counts are headed ``english-filter`` where English alone is kept, else ``language-filter``, as in the reference.

    Raises:
      ValueError: ``keep`` is empty or one string, or ``min_probability`` isn't within 0 and 1.
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
        """The page with its language, or why it goes: ``filtered:low_confidence``, ``filtered:ignored_language`` …

        ``counts`` gets ``filtered:ignored_language-fr``, a language each; ``passed:fr`` where more than one is kept.
        """
        guesses = self.identifier.guesses(page.text)
        reason = self._doubt(guesses)
        if reason is not None:
            return Dropped(reason) if self.keep is not None else self._kept(page, UNKNOWN, counts)
        assert guesses
        language = guesses[0].language
        if self.keep is None or language in self.keep or language.split("-")[0] in self.keep:
            return self._kept(page, language, counts)
        counts[f"filtered:ignored_language-{language}"] += 1
        return Dropped("filtered:ignored_language")

    def _doubt(self, guesses: list[Guess] | None) -> str | None:
        if guesses is None:
            return self.identifier.SPEECHLESS
        if not guesses:
            return "filtered:no_predictions"
        return "filtered:low_confidence" if guesses[0].probability < self.min_probability else None

    def _kept(self, page: Page, language: str, counts: Counter[str]) -> Page:
        if self.keep is None or len(self.keep) > 1:
            counts[f"passed:{language}"] += 1
        return page._replace(language=language)
