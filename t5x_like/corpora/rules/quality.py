"""Optional quality rules of other corpora; C4 uses none of them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, get_args

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules import datatrove_counting
from t5x_like.corpora.rules.page_statistics import (
    END_MARKS,
    STOP_WORDS,
    line_statistics,
    repetition_statistics,
    word_statistics,
)
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.nested_values import one_or_several

Counting = Literal["paper", "datatrove"]
_SHORT = 30  # characters of a line; in FineWeb

_Violations = Iterator[tuple[str, bool]]  # reason and whether it applies, computed as far as needed


@dataclass(frozen=True, kw_only=True)
class GopherQuality:
    """MassiveText's rules about words and lines (Rae et al. 2021, §A.1.1, https://arxiv.org/abs/2112.11446).

    Words are separated by whitespace. With ``counting="datatrove"`` marks are words of their own, which don't count as
    words of the page, but as words without letters; bullets are • and -; blank lines count as lines.

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
      min_stop_words: Fewest different ``stop_words``. 0 needs none.
      stop_words: Frequent words of the language, in lower case. The page's case doesn't matter, except with
        ``counting="datatrove"``.
      counting: "paper", or "datatrove" for the pages of FineWeb.

    Raises:
      ValueError: A threshold is negative, or ``counting`` is unknown.
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
    stop_words: tuple[str, ...] = STOP_WORDS
    counting: Counting = "paper"

    def __post_init__(self) -> None:
        if isinstance(self.stop_words, str):
            raise ValueError(
                f"GopherQuality.stop_words is {self.stop_words!r}; give a tuple such as ('the', 'be')"
            )
        object.__setattr__(self, "stop_words", tuple(self.stop_words))  # gin gives lists
        _check(self)

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:  # noqa: ARG002
        """Return the page, or the first violated rule: ``filtered:too_few_words``, ``filtered:bullet_lines`` …."""
        return _first_violation(page, self._violations(page.text))

    def _violations(self, text: str) -> _Violations:
        is_paper = self.counting == "paper"
        count_words = word_statistics if is_paper else datatrove_counting.token_statistics
        words = count_words(text, self.stop_words)
        mean = words.mean_word_length
        yield "too_few_words", words.num_words < self.min_words
        yield "too_many_words", words.num_words > self.max_words
        yield "word_length", not self.min_mean_word_length <= mean <= self.max_mean_word_length
        yield "hash_symbols", words.hashes_per_word > self.max_hashes_per_word
        yield "ellipses", words.ellipses_per_word > self.max_ellipses_per_word
        yield "words_without_letters", words.alphabetic_fraction < self.min_alphabetic_words
        yield "stop_words", words.num_stop_words < self.min_stop_words
        count_lines = line_statistics if is_paper else datatrove_counting.line_fractions
        lines = count_lines(text, short=_SHORT, end_marks=END_MARKS)
        yield "bullet_lines", lines.bullet_fraction > self.max_bullet_lines
        yield "ellipsis_lines", lines.ellipsis_fraction > self.max_ellipsis_lines


@dataclass(frozen=True, kw_only=True)
class GopherRepetition:
    """MassiveText's rules about repetition (Rae et al. 2021, Table A1): largest fractions of a page that may repeat.

    Lines, paragraphs and n-grams of words count from their second occurrence. With ``counting="datatrove"`` fractions
    are of all characters with whitespace, marks are words, and repeated n-grams don't overlap. A threshold of 1
    switches a rule off.

    Attributes:
      max_duplicate_lines: Largest fraction of the lines.
      max_duplicate_paragraphs: Largest fraction of the paragraphs.
      max_duplicate_line_characters: Largest fraction of the characters that are in repeated lines.
      max_duplicate_paragraph_characters: Largest fraction of the characters that are in repeated paragraphs.
      max_top_n_grams: Largest fractions of the characters that are in the most frequent n-gram, for n = 2, 3, 4.
      max_duplicate_n_grams: Largest fractions of the characters that are in repeated n-grams, for n = 5 to 10.
      counting: "paper", or "datatrove" for the pages of FineWeb.

    Raises:
      ValueError: A threshold is negative, there isn't one for each n, or ``counting`` is unknown.
    """

    NAME: ClassVar[str] = "gopher-repetition"
    VERSION: ClassVar[int] = 1

    max_duplicate_lines: float = 0.30
    max_duplicate_paragraphs: float = 0.30
    max_duplicate_line_characters: float = 0.20
    max_duplicate_paragraph_characters: float = 0.20
    max_top_n_grams: tuple[float, ...] = (0.20, 0.18, 0.16)
    max_duplicate_n_grams: tuple[float, ...] = (0.15, 0.14, 0.13, 0.12, 0.11, 0.10)
    counting: Counting = "paper"

    def __post_init__(self) -> None:
        for name, length in (("max_top_n_grams", 3), ("max_duplicate_n_grams", 6)):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # gin gives lists
            if len(getattr(self, name)) != length:
                raise ValueError(
                    f"GopherRepetition.{name} is {getattr(self, name)}; give {length} fractions, one for each n"
                )
        _check(self)

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:  # noqa: ARG002
        """Return the page, or the first violated rule: ``filtered:duplicate_lines``, ``filtered:top_2_gram`` …."""
        return _first_violation(page, self._violations(page.text))

    def _violations(self, text: str) -> _Violations:
        is_paper = self.counting == "paper"
        duplicates, characters = (
            _duplicate_lines(text) if is_paper else datatrove_counting.repeated_line_fractions(text)
        )
        yield "duplicate_lines", duplicates > self.max_duplicate_lines
        yield "duplicate_line_characters", characters > self.max_duplicate_line_characters
        statistics = repetition_statistics(text) if is_paper else datatrove_counting.repeated_fractions(text)
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
    """FineWeb's rules about lines (Penedo et al. 2024, §3.6, https://arxiv.org/abs/2406.17557).

    The paper has three rules. The program that made FineWeb has a fourth, ``max_newlines_per_word``, and 0.01 instead
    of 0.1 for repeated lines: datatrove's ``FineWebQualityFilter``, and a comment in the program of FineWeb2.

    Attributes:
      min_punctuated_lines: Pages with at most this fraction of lines that end a sentence are dropped.
      max_duplicate_line_characters: Pages with at least this fraction of characters in repeated lines are dropped.
      max_short_lines: Pages with at least this fraction of short lines are dropped.
      short_line_characters: Lines with fewer characters are short; with ``counting="datatrove"`` also lines with as
        many.
      max_newlines_per_word: Pages with a higher ratio of line breaks to words and marks are dropped; None keeps them.
      end_marks: Marks that end a sentence.
      counting: "paper", or "datatrove" for the pages of FineWeb: lines aren't stripped.

    Raises:
      ValueError: A threshold is negative, or ``counting`` is unknown.
    """

    NAME: ClassVar[str] = "fineweb-quality"
    VERSION: ClassVar[int] = 1

    min_punctuated_lines: float = 0.12
    max_duplicate_line_characters: float = 0.1
    max_short_lines: float = 0.67
    short_line_characters: int = _SHORT
    max_newlines_per_word: float | None = None
    end_marks: tuple[str, ...] = END_MARKS
    counting: Counting = "paper"

    def __post_init__(self) -> None:
        object.__setattr__(self, "end_marks", tuple(self.end_marks))  # gin gives lists
        _check(self)

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:  # noqa: ARG002
        """Return the page, or the first violated rule: ``filtered:line_punctuation``, ``filtered:short_lines`` …."""
        return _first_violation(page, self._violations(page.text))

    def _violations(self, text: str) -> _Violations:
        count_lines = line_statistics if self.counting == "paper" else datatrove_counting.line_fractions
        lines = count_lines(text, short=self.short_line_characters, end_marks=self.end_marks)
        characters = lines.duplicate_character_fraction
        yield "line_punctuation", lines.punctuated_fraction <= self.min_punctuated_lines
        yield "duplicate_line_characters", characters >= self.max_duplicate_line_characters
        yield "short_lines", lines.short_fraction >= self.max_short_lines
        if self.max_newlines_per_word is not None:
            yield "newlines", datatrove_counting.newlines_per_token(text) > self.max_newlines_per_word


def _duplicate_lines(text: str) -> tuple[float, float]:
    lines = line_statistics(text)
    return lines.duplicate_fraction, lines.duplicate_character_fraction


def _first_violation(page: Page, violations: _Violations) -> Page | Dropped:
    reason = next((reason for reason, is_violated in violations if is_violated), None)
    return page if reason is None else Dropped(f"filtered:{reason}")


def _check(rule: GopherQuality | GopherRepetition | FineWebQuality) -> None:
    if rule.counting not in get_args(Counting):
        raise ValueError(
            f"{type(rule).__name__}.counting is {rule.counting!r}; choose from {', '.join(get_args(Counting))}"
        )
    for field in fields(rule):
        value = getattr(rule, field.name)
        if any(isinstance(each, int | float) and each < 0 for each in one_or_several(value)):
            raise ValueError(f"{type(rule).__name__}.{field.name} is {value}; give 0 or more")
