"""Statistics of a page as datatrove counts them, for rules that should keep the pages that FineWeb keeps.

They differ from those of ``page_statistics``: marks are words of their own (``word_tokens``); lines aren't stripped;
the characters of a page include its whitespace; a repeated n-gram may not overlap the one before. The facts are those
of datatrove 0.10.1, https://github.com/huggingface/datatrove.
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence

from t5x_like.corpora.rules.page_statistics import LineStatistics, RepetitionStatistics, WordStatistics
from t5x_like.corpora.rules.word_tokens import ASCII_MARKS, CONTROLS, OTHER_MARKS, split_tokens

_BULLETS = ("•", "-")
_ELLIPSES = ("...", "…")
_MARKS = frozenset(ASCII_MARKS + OTHER_MARKS + CONTROLS)
_PARAGRAPH_BREAK = re.compile(r"\n{2,}")
_LINE_BREAK = re.compile(r"\n+")
_tokens = functools.lru_cache(maxsize=2)(split_tokens)  # of a page that several rules count


def token_statistics(text: str, stop_words: Sequence[str]) -> WordStatistics:
    """Count words, symbols and stop words.

    Args:
      text: The text.
      stop_words: Words that are counted in the case in which they are listed.
    """
    tokens = _tokens(text)
    words = [token for token in tokens if not _MARKS.issuperset(token)]
    if not words:
        return WordStatistics(0, 0.0, 0.0, 0.0, 0.0, 0)
    return WordStatistics(
        num_words=len(words),
        mean_word_length=sum(map(len, words)) / len(words),
        hashes_per_word=text.count("#") / len(tokens),
        ellipses_per_word=(text.count("...") + text.count("…")) / len(tokens),
        alphabetic_fraction=sum(any(map(str.isalpha, token)) for token in tokens) / len(tokens),
        num_stop_words=len(set(tokens).intersection(stop_words)),
    )


def line_fractions(text: str, *, short: int, end_marks: tuple[str, ...]) -> LineStatistics:
    """Count kinds of lines.

    Bullets and ellipses are those of all lines, also blank ones; the other fractions leave blank lines out.

    Args:
      text: The text.
      short: Lines with at most so many characters are short.
      end_marks: Marks that end a sentence.
    """
    every = text.splitlines()
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        return LineStatistics(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    num_again, again = _repeated(lines)
    return LineStatistics(
        bullet_fraction=sum(line.lstrip().startswith(_BULLETS) for line in every) / len(every),
        ellipsis_fraction=sum(line.rstrip().endswith(_ELLIPSES) for line in every) / len(every),
        punctuated_fraction=sum(line.endswith(end_marks) for line in lines) / len(lines),
        short_fraction=sum(len(line) <= short for line in lines) / len(lines),
        duplicate_fraction=num_again / len(lines),
        duplicate_character_fraction=again / len(text.replace("\n", "")),
    )


def newlines_per_token(text: str) -> float:
    """Return the number of line breaks divided by that of words and marks, 0 for a text without words."""
    tokens = _tokens(text)
    return text.count("\n") / len(tokens) if tokens else 0.0


def repeated_line_fractions(text: str) -> tuple[float, float]:
    """Return the fraction of lines equal to an earlier one, and that of the page's characters in them.

    Lines are separated by one or more line breaks, and aren't stripped.
    """
    lines = _LINE_BREAK.split(text)
    num_again, again = _repeated(lines)
    return num_again / len(lines), again / max(len(text), 1)


def repeated_fractions(text: str) -> RepetitionStatistics:
    """Measure repeated paragraphs and repeated n-grams of tokens, as fractions of all characters."""
    paragraphs = _PARAGRAPH_BREAK.split(text.strip())
    num_again, again = _repeated(paragraphs)
    tokens, size = _tokens(text), max(len(text), 1)
    repeated: list[float] = []
    for n in range(5, 11):
        # If no n tokens repeat, no longer sequence does.
        none = bool(repeated) and repeated[-1] == 0.0
        repeated.append(0.0 if none else _repeated_characters(tokens, n) / size)
    return RepetitionStatistics(
        num_again / len(paragraphs),
        again / size,
        tuple(_most_frequent(tokens, n) / size for n in range(2, 5)),
        tuple(repeated),
    )


def _repeated(parts: Sequence[str]) -> tuple[int, int]:
    """Return the number of parts equal to an earlier one, and their characters."""
    distinct = set(parts)
    return len(parts) - len(distinct), sum(map(len, parts)) - sum(map(len, distinct))


def _most_frequent(tokens: Sequence[str], n: int) -> int:
    """Return the characters of the most frequent n-gram, the first of equally frequent ones, times its frequency."""
    counts = Counter(zip(*(tokens[start:] for start in range(n)), strict=False))
    if not counts:
        return 0
    gram, count = counts.most_common(1)[0]
    return (sum(map(len, gram)) + n - 1) * count  # with spaces between the words


def _repeated_characters(tokens: Sequence[str], n: int) -> int:
    """Return the characters in n-grams that occurred before; after such an n-gram the next begins."""
    seen: set[str] = set()
    repeated = start = 0
    while start + n <= len(tokens):
        gram = "".join(tokens[start : start + n])
        if gram in seen:
            repeated += len(gram)
            start += n
        else:
            seen.add(gram)
            start += 1
    return repeated
