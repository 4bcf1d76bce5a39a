"""Sentences made alike before they are compared: case, numbers, punctuation, white space and accents don't count."""

import re
import unicodedata

# As CCNet's normaliser (Wenzek et al. 2020, https://aclanthology.org/2020.lrec-1.494) and datatrove's know them.
_ASCII_MARKS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_OTHER_MARKS = "«´»–—’“”„…∶━►、。〈〉《》「」【】！％（），．：；？～"
_CONTROLS = "".join(map(chr, [*range(32), *range(127, 160)]))
_TO_SPACES = str.maketrans(dict.fromkeys(_ASCII_MARKS + _OTHER_MARKS + _CONTROLS, " "))

_NUMBER = re.compile(r"\d+(?:[.,\u066b\u060c\u2396-\u2398]\d+)?")
_NO_ASCII_WORD = re.compile(r"[^a-z0-9]+")
_WORD_CHARACTER = re.compile(r"[A-Za-z0-9]")


def normalise(sentence: str) -> str:
    """Lower case, every number 0, punctuation and white space one space, no accents.

    >>> normalise("The  café's 3.5 stars, in 1999!")
    'the cafe s 0 stars in 0'
    """
    text = _NUMBER.sub("0", sentence.lower())
    if text.isascii():
        return _NO_ASCII_WORD.sub(" ", text).strip()  # the same as below, at twice the speed
    return _without_accents(" ".join(text.translate(_TO_SPACES).split()))


def has_words(sentence: str) -> bool:
    """Whether anything is left of it when it is normalised."""
    return _WORD_CHARACTER.search(sentence) is not None or bool(normalise(sentence))


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(letter for letter in decomposed if unicodedata.category(letter) != "Mn").strip()
