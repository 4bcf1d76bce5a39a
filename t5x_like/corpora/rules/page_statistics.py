"""Statistics that distinguish prose from menus, lists of keywords and machine text."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_LETTER = re.compile(r"[^\W\d_]")
_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n")
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
END_MARKS = (".", "!", "?", '"', "”", "。", "！", "？")
BULLETS = ("•", "‣", "▪", "◦", "●", "○", "-", "*")


class WordStatistics(NamedTuple):
    """Statistics of words, which are separated by whitespace; 0 for an empty text.

    Attributes:
      num_words: Number of words.
      mean_word_length: In characters.
      hashes_per_word: Number of ``#`` divided by the number of words.
      ellipses_per_word: Number of ellipses divided by the number of words.
      alphabetic_fraction: Fraction of words that have a letter.
      num_stop_words: Number of stop words that occur, each counted once.
    """

    num_words: int
    mean_word_length: float
    hashes_per_word: float
    ellipses_per_word: float
    alphabetic_fraction: float
    num_stop_words: int


class LineStatistics(NamedTuple):
    """Fractions of the stripped lines that aren't blank, or of their characters.

    Attributes:
      bullet_fraction: Lines that begin with a bullet.
      ellipsis_fraction: Lines that end with an ellipsis.
      punctuated_fraction: Lines that end with a mark that ends sentences.
      short_fraction: Short lines.
      duplicate_fraction: Lines equal to an earlier one.
      duplicate_character_fraction: Characters in such lines.
    """

    bullet_fraction: float
    ellipsis_fraction: float
    punctuated_fraction: float
    short_fraction: float
    duplicate_fraction: float
    duplicate_character_fraction: float


class RepetitionStatistics(NamedTuple):
    """Fractions of the page that repeat something.

    Attributes:
      duplicate_paragraphs: Paragraphs equal to an earlier one.
      duplicate_paragraph_characters: Characters in such paragraphs.
      top_n_grams: Characters (without whitespace) in the most frequent n-gram, n = 2, 3, 4; 0 if none occurs twice.
      duplicate_n_grams: Characters in repeated n-grams, n = 5 to 10; each character counts once.
    """

    duplicate_paragraphs: float
    duplicate_paragraph_characters: float
    top_n_grams: tuple[float, ...]
    duplicate_n_grams: tuple[float, ...]


def word_statistics(text: str, stop_words: Sequence[str] = STOP_WORDS) -> WordStatistics:
    """Count words, symbols and stop words.

    Args:
      text: The text.
      stop_words: Words in lower case.
    """
    words = text.split()
    count = len(words)
    if not count:
        return WordStatistics(0, 0.0, 0.0, 0.0, 0.0, 0)
    alphabetic = sum(1 for word in words if word.isalpha() or _LETTER.search(word))
    return WordStatistics(
        num_words=count,
        mean_word_length=sum(map(len, words)) / count,
        hashes_per_word=text.count("#") / count,
        ellipses_per_word=(text.count("...") + text.count("…")) / count,
        alphabetic_fraction=alphabetic / count,
        num_stop_words=len(set(text.lower().split()).intersection(stop_words)),
    )


def line_statistics(text: str, *, short: int = 30, end_marks: tuple[str, ...] = END_MARKS) -> LineStatistics:
    """Count kinds of lines.

    Args:
      text: The text.
      short: Lines with fewer characters are short.
      end_marks: Marks that end a sentence.
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    if not lines:
        return LineStatistics(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    duplicates, duplicate_characters = _duplicates(lines)
    return LineStatistics(
        bullet_fraction=sum(line.startswith(BULLETS) for line in lines) / len(lines),
        ellipsis_fraction=sum(line.endswith(("...", "…")) for line in lines) / len(lines),
        punctuated_fraction=sum(line.endswith(end_marks) for line in lines) / len(lines),
        short_fraction=sum(len(line) < short for line in lines) / len(lines),
        duplicate_fraction=duplicates,
        duplicate_character_fraction=duplicate_characters,
    )


def repetition_statistics(text: str) -> RepetitionStatistics:
    """Measure repeated paragraphs (separated by blank lines) and repeated n-grams of words."""
    paragraphs = [part for part in map(str.strip, _PARAGRAPH_BREAK.split(text)) if part]
    words = text.split()
    numbers: dict[str, int] = {}
    hashes = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.uint64) + np.uint64(1)
    lengths = np.array([len(word) for word in words], np.int64)
    top: list[float] = []
    repeated: list[float] = []
    grams = hashes
    for n in range(2, 11):
        grams = grams[:-1] * _MULTIPLIER + hashes[n - 1 :] if len(words) >= n else grams[:0]
        if n <= 4:
            top.append(_top_fraction(grams, lengths, n))
        else:
            # If no n words repeat, no longer sequence does.
            none = bool(repeated) and repeated[-1] == 0.0
            repeated.append(0.0 if none else _repeated_fraction(grams, lengths, n))
    return RepetitionStatistics(*_duplicates(paragraphs), tuple(top), tuple(repeated))


def _duplicates(parts: Sequence[str]) -> tuple[float, float]:
    """Return the fraction of the parts that are equal to an earlier one, and of their characters."""
    distinct = set(parts)
    if len(distinct) == len(parts):
        return 0.0, 0.0
    characters = sum(map(len, parts))
    again = characters - sum(map(len, distinct))
    return (len(parts) - len(distinct)) / len(parts), again / characters


def _top_fraction(grams: np.ndarray, lengths: np.ndarray, n: int) -> float:
    """Return the fraction of characters in the most frequent n-gram, the longest of equally frequent ones."""
    if not len(grams):
        return 0.0
    _, first, counts = np.unique(grams, return_index=True, return_counts=True)
    most = counts.max()
    if most == 1:
        return 0.0
    starts = first[counts == most]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    longest = (ends[starts + n] - ends[starts]).max()
    return float(min(1.0, most * longest / ends[-1]))


def _repeated_fraction(grams: np.ndarray, lengths: np.ndarray, n: int) -> float:
    """Return the fraction of characters in n-grams that occurred before, each counted once."""
    _, first = np.unique(grams, return_index=True)
    if len(first) == len(grams):
        return 0.0
    again = np.ones(len(grams), np.int64)
    again[first] = 0
    covered = np.convolve(again, np.ones(n, np.int64)) > 0
    return float(lengths[covered].sum() / lengths.sum())
