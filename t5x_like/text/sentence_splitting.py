"""Sentence splitting by punctuation, which needs no parameters of a language."""

import re
from itertools import pairwise

# Mark that ends a sentence, with closing quotes and brackets, before white space; Chinese and Japanese marks need no
# white space.
_END = re.compile(r"""[.?!]+["'”’»)\]]*(?=\s)|[。？！]+[”’」』）]*""")


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences whose concatenation is the text; white space stays before what follows it.

    A sentence ends at ``.``, ``?`` or ``!``, with closing quotes or brackets, before white space. Abbreviations count
    as ends: objectives need pieces of natural size more than grammar.

    >>> split_sentences('"Who?" she said. It rained.')
    ['"Who?"', ' she said.', ' It rained.']
    """
    ends = [match.end() for match in _END.finditer(text)]
    if ends and not text[ends[-1] :].strip():
        ends.pop()
    edges = [0, *ends, len(text)]
    return [text[start:end] for start, end in pairwise(edges) if end > start]
