"""Optional quality rules of other corpora; C4 uses none of them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.page_statistics import (
    line_statistics,
    repetition_statistics,
    word_statistics,
)
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.nested_values import one_or_several

_Violations = Iterator[tuple[str, bool]]  # reason and whether it applies, computed as far as needed


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
        return _first_violation(page, self._violations(page.text))

    def _violations(self, text: str) -> _Violations:
        words = word_statistics(text)
        mean = words.mean_word_length
        yield "too_few_words", words.num_words < self.min_words
        yield "too_many_words", words.num_words > self.max_words
        yield "word_length", not self.min_mean_word_length <= mean <= self.max_mean_word_length
        yield "hash_symbols", words.hashes_per_word > self.max_hashes_per_word
        yield "ellipses", words.ellipses_per_word > self.max_ellipses_per_word
        yield "words_without_letters", words.alphabetic_fraction < self.min_alphabetic_words
        yield "stop_words", words.num_stop_words < self.min_stop_words
        lines = line_statistics(text)
        yield "bullet_lines", lines.bullet_fraction > self.max_bullet_lines
        yield "ellipsis_lines", lines.ellipsis_fraction > self.max_ellipsis_lines


@dataclass(frozen=True, kw_only=True)
class GopherRepetition:
    """MassiveText's rules about repetition (Rae et al. 2021, Table A1): largest fractions of a page that may repeat.

    Lines, paragraphs and n-grams of words count from their second occurrence.

    Attributes:
      max_duplicate_lines: Largest fraction of the lines.
      max_duplicate_paragraphs: Largest fraction of the paragraphs.
      max_duplicate_line_characters: Largest fraction of the characters that are in repeated lines.
      max_duplicate_paragraph_characters: Largest fraction of the characters that are in repeated paragraphs.
      max_top_n_grams: Largest fractions of the characters that are in the most frequent n-gram, for n = 2, 3, 4.
      max_duplicate_n_grams: Largest fractions of the characters that are in repeated n-grams, for n = 5 to 10.

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
        return _first_violation(page, self._violations(page.text))

    def _violations(self, text: str) -> _Violations:
        lines = line_statistics(text)
        yield "duplicate_lines", lines.duplicate_fraction > self.max_duplicate_lines
        characters = lines.duplicate_character_fraction
        yield "duplicate_line_characters", characters > self.max_duplicate_line_characters
        statistics = repetition_statistics(text)
        yield "duplicate_paragraphs", statistics.duplicate_paragraphs > self.max_duplicate_paragraphs
        characters = statistics.duplicate_paragraph_characters
        yield "duplicate_paragraph_characters", characters > self.max_duplicate_paragraph_characters
        for n, fraction, most in zip(range(2, 5), statistics.top_n_grams, self.max_top_n_grams, strict=True):
            yield f"top_{n}_gram", fraction > most
        repeated = zip(range(5, 11), statistics.duplicate_n_grams, self.max_duplicate_n_grams, strict=True)
        for n, fraction, most in repeated:
            yield f"duplicate_{n}_grams", fraction > most


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
        return _first_violation(page, self._violations(page.text))

    def _violations(self, text: str) -> _Violations:
        lines = line_statistics(text, short=self.short_line_characters)
        characters = lines.duplicate_character_fraction
        yield "line_punctuation", lines.punctuated_fraction <= self.min_punctuated_lines
        yield "duplicate_line_characters", characters >= self.max_duplicate_line_characters
        yield "short_lines", lines.short_fraction >= self.max_short_lines


def _first_violation(page: Page, violations: _Violations) -> Page | Dropped:
    reason = next((reason for reason, is_violated in violations if is_violated), None)
    return page if reason is None else Dropped(f"filtered:{reason}")


def _refuse_negative(rule: GopherQuality | GopherRepetition | FineWebQuality) -> None:
    for field in fields(rule):
        value = getattr(rule, field.name)
        if any(each < 0 for each in one_or_several(value)):
            raise ValueError(f"{type(rule).__name__}.{field.name} is {value}; give 0 or more")
