"""C4's rules for lines and pages, as pure functions.

Raffel et al. 2020, §2.2, https://arxiv.org/abs/1910.10683; thresholds, order and details as TensorFlow Datasets builds
C4 (text/c4_utils.py). A word is a part of ``str.split()``, a line one of ``str.splitlines()``.
"""

import re
from collections.abc import Sequence

from t5x_like.corpora.rules.sentences import count_sentences

MIN_WORDS = 5
MAX_WORD_CHARS = 1000
END_MARKS = (".", "?", "!", '"')
# Last characters of a line that may end a sentence after its citation marks are removed.
MAY_COME_LAST = frozenset((*END_MARKS, "]"))
ELLIPSIS = "..."
JAVASCRIPT = "javascript"
POLICIES = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)

PASSED = "line-passed"
NO_END_MARK = "line-filtered:no_endmark"
TOO_SHORT = "line-filtered:too_short"
TOO_LONG_WORD = "line-filtered:too_long_word"
MENTIONS_JAVASCRIPT = "line-filtered:javascript"
MENTIONS_POLICY = "line-filtered:policy"

# Linear time: after the bracket no alternative can backtrack.
_CITATION = re.compile(r"\[(?:\d*|edit|citation needed)\]")


def has_longer_word(line: str, max_chars: int) -> bool:
    """Return True if a word of the line is longer than the limit.

    Args:
      line: Text without line breaks.
      max_chars: Limit in characters.
    """
    return len(line) > max_chars and max(map(len, line.split()), default=0) > max_chars


def without_citations(line: str) -> str:
    """Return the line without ``[3]``, ``[]``, ``[edit]`` and ``[citation needed]``, in one pass from left to right.

    Text around them stays: a space before one, or brackets that now look like one (``[[1]2]`` gives ``[2]``).
    """
    return _CITATION.sub("", line) if "[" in line else line


def ends_a_sentence(line: str) -> bool:
    """Return True if the line ends in ``.``, ``?``, ``!`` or an ASCII quotation mark, but not in an ellipsis."""
    return line.endswith(END_MARKS) and not line.endswith(ELLIPSIS)


def has_words(line: str, at_least: int) -> bool:
    """Return True if the line has enough words; it is split no further than needed.

    Args:
      line: Text without line breaks.
      at_least: Number of words that is enough.
    """
    return at_least < 1 or len(line.split(None, at_least - 1)) >= at_least


def mentions_policy(lowered: str) -> bool:
    """Return True if a lower-cased line is about cookies, privacy or terms of use."""
    return any(policy in lowered for policy in POLICIES)


MIN_SENTENCES = 3
PLACEHOLDER = "lorem ipsum"
CURLY_BRACKET = "{"

LOREM_IPSUM = "filtered:loremipsum"
CODE = "filtered:squigglybracket"
TOO_FEW_SENTENCES = "filtered:too_few_sentences"


def has_sentences(lines: Sequence[str], at_least: int) -> bool:
    """Return True if lines have enough sentences, counted line by line.

    Sentences are counted only if the lines are too few: a line that isn't blank has at least one.

    Args:
      lines: Lines of which none is blank.
      at_least: Number of sentences that is enough.
    """
    if len(lines) >= at_least:
        return True
    num_sentences = 0
    for num_seen, line in enumerate(lines, start=1):
        others = len(lines) - num_seen
        num_sentences += count_sentences(line, at_most=at_least - num_sentences - others)
        if num_sentences + others >= at_least:
            return True
    return False
