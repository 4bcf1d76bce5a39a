"""Optional quality rules of other corpora; C4 uses none of them."""

from collections import Counter
from dataclasses import dataclass, fields
from typing import ClassVar

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.page_statistics import (
    line_statistics,
    repetition_statistics,
    word_statistics,
)
from t5x_like.corpora.rules.rule import Dropped


@dataclass(frozen=True, kw_only=True)
class GopherQuality:
    """MassiveText's rules about words and lines (Rae et al. 2021, §A.1.1, https://arxiv.org/abs/2112.11446).

    Words are separated by whitespace.

    Attributes:
      min_words: Fewest words.
      max_words: Most words.
      min_mean_word_length: In characters.
      max_mean_word_length: In characters.
      max_hashes_per_word: Largest ratio of ``#`` to words.
      max_ellipses_per_word: Largest ratio of ellipses to words.
      max_bullet_lines: Largest fraction of lines that begin with a bullet.
      max_ellipsis_lines: Largest fraction of lines that end with an ellipsis.
      min_alphabetic_words: Smallest fraction of words with a letter.
      min_stop_words: Fewest of eight English words: the, be, to, of, and, that, have, with. 0 for other languages.

    Raises:
      ValueError: A threshold is negative.
    """

    NAME: ClassVar[str] = "gopher-quality"
    VERSION: ClassVar[int] = 1

    min_words: int = 50
    max_words: int = 100_000
    min_mean_word_length: float = 3.0
    max_mean_word_length: float = 10.0
    max_hashes_per_word: float = 0.1
    max_ellipses_per_word: float = 0.1
    max_bullet_lines: float = 0.9
    max_ellipsis_lines: float = 0.3
    min_alphabetic_words: float = 0.8
    min_stop_words: int = 2

    def __post_init__(self) -> None:
        _refuse_negative(self)

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:  # noqa: ARG002
        """Return the page, or the first violated rule: ``filtered:too_few_words``, ``filtered:bullet_lines`` …."""
        words = word_statistics(page.text)
        if words.num_words < self.min_words:
            return Dropped("filtered:too_few_words")
        if words.num_words > self.max_words:
            return Dropped("filtered:too_many_words")
        if not self.min_mean_word_length <= words.mean_word_length <= self.max_mean_word_length:
            return Dropped("filtered:word_length")
        if words.hashes_per_word > self.max_hashes_per_word:
            return Dropped("filtered:hash_symbols")
        if words.ellipses_per_word > self.max_ellipses_per_word:
            return Dropped("filtered:ellipses")
        if words.alphabetic_fraction < self.min_alphabetic_words:
            return Dropped("filtered:words_without_letters")
        if words.num_stop_words < self.min_stop_words:
            return Dropped("filtered:stop_words")
        lines = line_statistics(page.text)
        if lines.bullet_fraction > self.max_bullet_lines:
            return Dropped("filtered:bullet_lines")
        if lines.ellipsis_fraction > self.max_ellipsis_lines:
            return Dropped("filtered:ellipsis_lines")
        return page


@dataclass(frozen=True, kw_only=True)
class GopherRepetition:
    """MassiveText's rules about repetition (Rae et al. 2021, Table A1): largest fractions of a page that may repeat.

    Lines, paragraphs and n-grams of words count from their second occurrence.

    Attributes:
      max_duplicate_lines: Of the lines.
      max_duplicate_paragraphs: Of the paragraphs.
      max_duplicate_line_characters: Of the characters.
      max_duplicate_paragraph_characters: Of the characters.
      max_top_n_grams: Of the characters, in the most frequent n-gram for n = 2, 3, 4.
      max_duplicate_n_grams: Of the characters, in repeated n-grams for n = 5 to 10.

    Raises:
      ValueError: A threshold is negative, or there isn't one for each n.
    """

    NAME: ClassVar[str] = "gopher-repetition"
    VERSION: ClassVar[int] = 1

    max_duplicate_lines: float = 0.30
    max_duplicate_paragraphs: float = 0.30
    max_duplicate_line_characters: float = 0.20
    max_duplicate_paragraph_characters: float = 0.20
    max_top_n_grams: tuple[float, ...] = (0.20, 0.18, 0.16)
    max_duplicate_n_grams: tuple[float, ...] = (0.15, 0.14, 0.13, 0.12, 0.11, 0.10)

    def __post_init__(self) -> None:
        for name, length in (("max_top_n_grams", 3), ("max_duplicate_n_grams", 6)):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # gin gives lists
            if len(getattr(self, name)) != length:
                raise ValueError(
                    f"GopherRepetition.{name} is {getattr(self, name)}; give {length} fractions, one for each n"
                )
        _refuse_negative(self)

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:  # noqa: ARG002
        """Return the page, or the first violated rule: ``filtered:duplicate_lines``, ``filtered:top_2_gram`` …."""
        lines = line_statistics(page.text)
        if lines.duplicate_fraction > self.max_duplicate_lines:
            return Dropped("filtered:duplicate_lines")
        if lines.duplicate_character_fraction > self.max_duplicate_line_characters:
            return Dropped("filtered:duplicate_line_characters")
        found = repetition_statistics(page.text)
        if found.duplicate_paragraphs > self.max_duplicate_paragraphs:
            return Dropped("filtered:duplicate_paragraphs")
        if found.duplicate_paragraph_characters > self.max_duplicate_paragraph_characters:
            return Dropped("filtered:duplicate_paragraph_characters")
        for n, (fraction, most) in enumerate(
            zip(found.top_n_grams, self.max_top_n_grams, strict=True), start=2
        ):
            if fraction > most:
                return Dropped(f"filtered:top_{n}_gram")
        for n, (fraction, most) in enumerate(
            zip(found.duplicate_n_grams, self.max_duplicate_n_grams, strict=True), start=5
        ):
            if fraction > most:
                return Dropped(f"filtered:duplicate_{n}_grams")
        return page


@dataclass(frozen=True, kw_only=True)
class FineWebQuality:
    """FineWeb's three rules about lines (Penedo et al. 2024, §3.6, https://arxiv.org/abs/2406.17557).

    Attributes:
      min_punctuated_lines: Pages with at most this fraction of lines that end a sentence are dropped.
      max_duplicate_line_characters: Pages with at least this fraction of characters in repeated lines are dropped.
      max_short_lines: Pages with at least this fraction of short lines are dropped.
      short_line_characters: Lines with fewer characters are short.

    Raises:
      ValueError: A threshold is negative.
    """

    NAME: ClassVar[str] = "fineweb-quality"
    VERSION: ClassVar[int] = 1

    min_punctuated_lines: float = 0.12
    max_duplicate_line_characters: float = 0.1
    max_short_lines: float = 0.67
    short_line_characters: int = 30

    def __post_init__(self) -> None:
        _refuse_negative(self)

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:  # noqa: ARG002
        """Return the page, or ``filtered:line_punctuation``, ``:duplicate_line_characters``, ``:short_lines``."""
        lines = line_statistics(page.text, short=self.short_line_characters)
        if lines.punctuated_fraction <= self.min_punctuated_lines:
            return Dropped("filtered:line_punctuation")
        if lines.duplicate_character_fraction >= self.max_duplicate_line_characters:
            return Dropped("filtered:duplicate_line_characters")
        if lines.short_fraction >= self.max_short_lines:
            return Dropped("filtered:short_lines")
        return page


def _refuse_negative(rule: GopherQuality | GopherRepetition | FineWebQuality) -> None:
    for field in fields(rule):
        value = getattr(rule, field.name)
        if any(number < 0 for number in (value if isinstance(value, tuple) else (value,))):
            raise ValueError(f"{type(rule).__name__}.{field.name} is {value}; give 0 or more")
