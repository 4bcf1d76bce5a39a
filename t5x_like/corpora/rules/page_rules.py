"""What in a line that is otherwise good makes C4 drop the whole page, and what a page must amount to.

Raffel et al. 2020, §2.2, https://arxiv.org/abs/1910.10683; as TensorFlow Datasets builds C4 (text/c4_utils.py).
"""

from collections.abc import Sequence

from t5x_like.corpora.rules.sentences import count_sentences

MIN_SENTENCES = 3
PLACEHOLDER = "lorem ipsum"
CURLY_BRACKET = "{"

LOREM_IPSUM = "filtered:loremipsum"
CODE = "filtered:squigglybracket"
TOO_FEW_SENTENCES = "filtered:too_few_sentences"


def is_placeholder(lowered: str) -> bool:
    """Whether a lower-cased line is a designer's placeholder."""
    return PLACEHOLDER in lowered


def is_code(line: str) -> bool:
    """Whether a line has the bracket that programs have and prose hasn't."""
    return CURLY_BRACKET in line


def has_sentences(lines: Sequence[str], at_least: int) -> bool:
    """Whether lines have so many sentences, counted line by line; none of the lines may be blank.

    Sentences are looked for only where lines are too few: a line that isn't blank has at least one.
    """
    if len(lines) >= at_least:
        return True
    found = 0
    for number, line in enumerate(lines, start=1):
        others = len(lines) - number
        found += count_sentences(line, at_most=at_least - found - others)
        if found + others >= at_least:
            return True
    return False
