"""Labeled spans of words as text: ``[ Ann | A0 ] sold [ the mill | A1 ]``, after TANL (Paolini et al. 2021).

Spans may be nested, but not cross (https://arxiv.org/abs/2101.05779, §3). The signs are in T5's vocabulary, which has
no ``<``. Words that look like signs are written as the Penn Treebank writes them, ``-LSB-``.
"""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

_ESCAPED = {"[": "-LSB-", "]": "-RSB-", "|": "-BAR-"}


class LabeledSpan(NamedTuple):
    """Words ``start`` to ``end - 1`` with a label.

    Attributes:
      start: First word, from 0.
      end: Word after the last.
      label: Label without spaces.
    """

    start: int
    end: int
    label: str


def escaped(words: Iterable[str]) -> list[str]:
    """Return the words, with ``[``, ``]`` and ``|`` replaced."""
    return [_ESCAPED.get(word, word) for word in words]


def write_spans(words: Sequence[str], spans: Iterable[LabeledSpan]) -> str:
    """Write words with their spans.

    >>> write_spans("Ann sold it".split(), [LabeledSpan(0, 1, "A0"), LabeledSpan(2, 3, "A1")])
    '[ Ann | A0 ] sold [ it | A1 ]'

    Args:
      words: Words of a sentence or document.
      spans: Spans of words, which may be nested.

    Raises:
      ValueError: Two spans cross, or a span is empty or outside the words.
    """
    waiting = sorted(spans, key=lambda span: (-span.start, span.end))
    written: list[str] = []
    inside: list[LabeledSpan] = []
    for index, word in enumerate(escaped(words)):
        while waiting and waiting[-1].start == index:
            span = waiting.pop()
            if not index < span.end <= len(words):
                raise ValueError(f"the span {span.start} to {span.end} is not within {len(words)} words")
            if inside and span.end > inside[-1].end:
                raise ValueError(
                    f"the spans {inside[-1].start} to {inside[-1].end} and {span.start} to {span.end} cross, which "
                    "brackets cannot write"
                )
            inside.append(span)
            written.append("[")
        written.append(word)
        while inside and inside[-1].end == index + 1:
            written += ["|", inside.pop().label, "]"]
    if waiting:
        raise ValueError(f"the span from {waiting[-1].start} begins outside the {len(words)} words")
    return " ".join(written)


def read_spans(text: str, words: Sequence[str] = ()) -> list[LabeledSpan]:
    """Read the spans of a written or generated text, in the order of their ends.

    A generated text may differ from the words. It is aligned with them, and spans whose first or last word is not among
    them are left out, as are spans that never end.

    Args:
      text: Text as from ``write_spans``.
      words: Words of the sentence; without them positions are those of the text's own words.
    """
    parts = text.split()
    spans: list[LabeledSpan] = []
    plain: list[str] = []
    starts: list[int] = []
    index = 0
    while index < len(parts):
        part = parts[index]
        if part == "[":
            starts.append(len(plain))
        elif part == "|" and parts[index + 2 : index + 3] == ["]"]:
            if starts and starts[-1] < len(plain):
                spans.append(LabeledSpan(starts.pop(), len(plain), parts[index + 1]))
            index += 2
        elif part not in _ESCAPED:
            plain.append(part)
        index += 1
    return _aligned(spans, plain, escaped(words)) if words else spans


def _aligned(spans: list[LabeledSpan], plain: list[str], words: list[str]) -> list[LabeledSpan]:
    """Move spans from the positions of a text's words to those of the sentence."""
    if plain == words:
        return spans
    positions: dict[int, int] = {}
    for plain_start, word_start, size in SequenceMatcher(
        None, plain, words, autojunk=False
    ).get_matching_blocks():
        positions |= {plain_start + step: word_start + step for step in range(size)}
    return [
        LabeledSpan(positions[span.start], positions[span.end - 1] + 1, span.label)
        for span in spans
        if span.start in positions and span.end - 1 in positions
    ]
