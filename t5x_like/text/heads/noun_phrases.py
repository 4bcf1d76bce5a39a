"""Noun phrases of English text, by the library TextBlob (https://textblob.readthedocs.io)."""

import functools
import re
import warnings
from typing import Any, NamedTuple

# Words as the Penn Treebank has them: "did" and "n't", "Jane" and "'s". TextBlob's own split breaks both.
_ENDING = r"[’'](?:s|ll|re|ve|d|m)\b"
_WORDS = re.compile(
    rf"(?:mr|mrs|ms|dr|st|jr|sr)\.|n[’']t\b|{_ENDING}|\w+?(?=n[’']t\b)|\w+(?:(?!{_ENDING})[’'.-]\w+)*|[^\w\s]",
    re.IGNORECASE,
)
_ARTICLES = ("DT", "PRP$", "WP$")  # they begin a phrase
_BETWEEN = ("CC", "PRP", "WP", "WDT", "EX")  # they are between phrases, or pronouns
_POSSESSIVE = "POS"


class _Word(NamedTuple):
    start: int
    end: int
    tag: str


@functools.lru_cache(maxsize=4096)
def noun_phrases(text: str) -> tuple[str, ...]:
    """Return the phrases of a text that have a noun, in order and as they are written.

    >>> noun_phrases("The manager's cat and Mark didn't fit in the brown suitcase.")
    ("The manager's cat", 'Mark', 'the brown suitcase')

    Raises:
      ValueError: TextBlob isn't installed.
    """
    parse = _parser()
    words = [(match[0], *match.span()) for match in _WORDS.finditer(text)]
    if not words:
        return ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it doesn't close its lexicon
        parsed = parse(
            " ".join(word.replace("’", "'") for word, _, _ in words), tokenize=False, chunks=True
        ).split()
    tagged = [(tag, chunk) for sentence in parsed for _, tag, chunk, *_ in sentence]
    phrases: list[list[_Word]] = [[]]
    for (_, start, end), (tag, chunk) in zip(words, tagged, strict=True):
        word = _Word(start, end, tag)
        if tag == _POSSESSIVE and phrases[-1]:
            phrases[-1].append(word)
        elif tag in _BETWEEN or not chunk.endswith("-NP"):
            phrases.append([])
        elif tag in _ARTICLES or (chunk.startswith("B") and not _is_owned(phrases[-1])):
            phrases.append([word])
        else:
            phrases[-1].append(word)
    trimmed = [phrase[:-1] if _is_owned(phrase) else phrase for phrase in phrases]
    return tuple(
        text[phrase[0].start : phrase[-1].end]
        for phrase in trimmed
        if any(word.tag.startswith("NN") for word in phrase)
    )


def _is_owned(phrase: list[_Word]) -> bool:
    """Return whether a phrase ends with a possessive, so that the next word belongs to it."""
    return bool(phrase) and phrase[-1].tag == _POSSESSIVE


def _parser() -> Any:
    try:
        from textblob.en import parse  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError(
            "noun phrases need the library TextBlob; install it: pip install 't5x-like[pronouns]'. Or give each row "
            "its candidates"
        ) from None
    return parse
