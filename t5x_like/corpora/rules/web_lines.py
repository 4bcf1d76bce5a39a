"""RefinedWeb's corrections of lines: what extraction leaves of menus, counters and buttons."""

import functools
import re
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped

# Words of counters, such as "3 likes".
COUNTED = (
    "likes", "like", "shares", "share", "comments", "comment", "replies", "reply", "views", "view", "followers",
    "following", "retweets", "reposts", "upvotes", "downvotes", "votes", "downloads", "bookmarks", "reviews",
)  # fmt: skip
AT_START = (
    "sign in",
    "sign-in",
    "sign up",
    "log in",
    "login",
    "register now",
    "skip to content",
    "share this",
)
AT_END = ("read more", "read more...", "read more…", "see more", "show more", "continue reading", "load more")
ANYWHERE = ("items in cart", "item in cart", "add to cart", "items in your cart", "your cart is empty")


@dataclass(frozen=True, kw_only=True)
class WebLines:
    """Removes lines of menus and counters, and drops pages with many of them.

    A line is removed if it is mainly in capital letters, has digits only, is a counter such as "3 likes", or is one
    word. A short line loses a phrase of whole words at its start or end, or anywhere in it. A page is dropped if all
    these lines have more than ``max_flagged_words`` of its words. Blank lines stay. Words are separated by spaces; the
    rule suits no language that is written without them.

    Penedo et al. 2023, appendix G.2, https://arxiv.org/abs/2306.01116. The paper gives an example of each kind of
    phrase, and no threshold for capital letters: the phrases and one half are this rule's.

    Attributes:
      max_uppercase: Lines with a higher fraction of their characters in capital letters are removed.
      counted: Words that follow the number of a counter, in lower case.
      short_words: Most words of a line that may lose a phrase.
      at_start: Phrases at the start of a short line, in lower case.
      at_end: Phrases at its end.
      anywhere: Phrases anywhere in it.
      max_flagged_words: Largest fraction of a page's words in lines that are removed or edited.

    Raises:
      ValueError: A threshold is out of range, or phrases are one string.
    """

    NAME: ClassVar[str] = "web-lines"
    VERSION: ClassVar[int] = 1

    max_uppercase: float = 0.5
    counted: tuple[str, ...] = COUNTED
    short_words: int = 10
    at_start: tuple[str, ...] = AT_START
    at_end: tuple[str, ...] = AT_END
    anywhere: tuple[str, ...] = ANYWHERE
    max_flagged_words: float = 0.05

    def __post_init__(self) -> None:
        for name in ("max_uppercase", "max_flagged_words"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"WebLines.{name} is {getattr(self, name)}; give a fraction, 0 to 1")
        if self.short_words < 1:
            raise ValueError(f"WebLines.short_words is {self.short_words}; give 1 or more, such as 10")
        for name in ("counted", "at_start", "at_end", "anywhere"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"WebLines.{name} is {getattr(self, name)!r}; give a tuple of phrases")
            object.__setattr__(self, name, tuple(getattr(self, name)))  # gin gives lists

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page without such lines, ``filtered:flagged_lines`` or ``filtered:empty``.

        Args:
          page: The page.
          counts: Receives ``line-filtered:uppercase``, ``:numbers``, ``:counter``, ``:one_word`` and ``line-edited``.
        """
        num_words = num_flagged = 0
        kept: list[str] = []
        for line in page.text.split("\n"):
            words = line.split()
            num_words += len(words)
            reason = self._reason(words) if words else None
            edited = line if reason or len(words) > self.short_words else self._without_phrases(line)
            if reason is None:
                kept.append(edited)
            if reason or edited != line:
                num_flagged += len(words)
                counts[f"line-filtered:{reason}" if reason else "line-edited"] += 1
        if num_flagged > self.max_flagged_words * num_words:
            return Dropped("filtered:flagged_lines")
        text = "\n".join(kept)
        if text == page.text:
            return page
        return page._replace(text=text.strip()) if text.strip() else Dropped("filtered:empty")

    def _reason(self, words: list[str]) -> str | None:
        characters = "".join(words)
        if sum(map(str.isupper, characters)) > self.max_uppercase * len(characters):
            return "uppercase"
        if "".join(filter(str.isalnum, characters)).isdigit():
            return "numbers"
        if self._is_counter(words):
            return "counter"
        return "one_word" if len(words) == 1 else None

    def _is_counter(self, words: list[str]) -> bool:
        return len(words) == 2 and _COUNT.fullmatch(words[0]) is not None and words[1].lower() in self.counted

    def _without_phrases(self, line: str) -> str:
        edited = line.strip()
        for phrase in self._phrases:
            if match := phrase.search(edited):
                before, after = edited[: match.start()].rstrip(), edited[match.end() :].lstrip()
                edited = f"{before} {after}".strip()
        return line if edited == line.strip() else edited

    @functools.cached_property
    def _phrases(self) -> tuple[re.Pattern[str], ...]:
        at_end = sorted(self.at_end, key=len, reverse=True)
        patterns = (
            *(rf"\A{re.escape(phrase)}(?!\w)" for phrase in self.at_start),
            *(rf"(?<!\w){re.escape(phrase)}\Z" for phrase in at_end),
            *(rf"(?<!\w){re.escape(phrase)}(?!\w)" for phrase in self.anywhere),
        )
        return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


_COUNT = re.compile(r"\d[\d.,]{0,15}[kKmMbB]?")
