"""A rule that keeps the prose of documentation: sentences, and headings and lists that belong to them."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules import c4_rules
from t5x_like.corpora.rules.cleaning import Explanation, LineVerdict
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.sentences import count_sentences

NOT_PROSE = "line-filtered:not_prose"
FRAGMENT = "line-filtered:fragment"
BLANK = "line-filtered:blank"
MOSTLY_OTHER = "filtered:mostly_not_prose"

_END_MARKS = (".", "?", "!", ":", ";", '"', "”", "…")
_OPEN_ENDS = (":", ",", ";", "…")
_CLOSING = ")]*'’"  # may follow the mark
# A word of a language, not of a program: no digit, underscore, dot or capital letter inside.
_PLAIN_WORD = re.compile(
    r"""(?<!\S)[("'“‘\[*]*(?:[A-Z]?[a-z]+|[A-Z]{1,6}s?|I)(?:['’-][A-Za-z]+)*['’]?[.,;:?!)"'”’\]*…]*(?!\S)"""
)
_STOP_WORD = re.compile(
    r"\b(?:the|a|an|of|to|in|is|are|be|it|and|or|for|with|that|this|you|if|by|as|on|not|can|from)\b",
    re.IGNORECASE,
)
_UNREADABLE = re.compile("[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\ue000-\uf8ff]")
_NUMBERING = re.compile(
    r"(?:[Cc]hapter|[Ss]ection|[Aa]ppendix|[Tt]able|[Ff]igure)?\s*(?:\d+|[A-Z])(?:\.\d+){0,5}[.:)]?\s+"
)
_CELLS = re.compile(r"\t+")
_LONG_LINE = 8  # words from which a line of English has stop words

_Kind = Literal["sentence", "fragment", "other"]


class _Line(NamedTuple):
    text: str
    kind: _Kind
    decision: str


@dataclass(frozen=True, kw_only=True)
class ProseLines:
    """Keeps the lines of a page that are prose.

    C4's rules keep lines that end a sentence. Documentation has more to keep (headings, items of lists, sentences
    before an example) and more to leave out (menus, tables of symbols, signatures, code). Each line, or cell of a
    table, is one of three:

    - a *sentence* ends in ``.`` ``?`` ``!`` ``:`` ``;`` or a quotation mark, has ``min_words``, mostly plain words, and
      in a longer line a word such as *the* or *of*;
    - a *fragment* is made of plain words, but isn't a sentence, and doesn't end in ``:`` ``,`` or ``;``;
    - anything else is left out.

    Sentences stay. Fragments stay as a heading, up to ``max_headings`` before a sentence, and as a list: up to
    ``max_items`` after a sentence that ends in a colon. Longer runs of fragments are menus and indexes. A word is plain
    if it has letters alone, no capital letter after the first (up to six capital letters may stand together), and
    punctuation around it. The number of a section at the start of a line doesn't count.

    Attributes:
      min_words: Fewest words of a sentence.
      min_plain_words: Smallest fraction of plain words in a sentence.
      min_plain_fragment_words: Smallest fraction of plain words in a fragment.
      max_fragment_words: Most words of a fragment.
      max_headings: Most fragments in a row before a sentence.
      max_items: Most fragments in a row after a colon.
      max_word_chars: Longest word, in characters.
      min_sentences: Fewest sentences of a page.
      min_share: Smallest fraction of a page's characters that must stay.

    Raises:
      ValueError: A threshold is out of range.
    """

    NAME: ClassVar[str] = "prose-lines"
    VERSION: ClassVar[int] = 1

    min_words: int = 5
    min_plain_words: float = 0.6
    min_plain_fragment_words: float = 0.75
    max_fragment_words: int = 40
    max_headings: int = 2
    max_items: int = 40
    max_word_chars: int = 100
    min_sentences: int = 3
    min_share: float = 0.2

    def __post_init__(self) -> None:
        for name in ("min_words", "max_fragment_words", "max_word_chars"):
            if getattr(self, name) < 1:
                raise ValueError(f"ProseLines.{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("max_headings", "max_items", "min_sentences"):
            if getattr(self, name) < 0:
                raise ValueError(f"ProseLines.{name} is {getattr(self, name)}; it must be at least 0")
        for name in ("min_plain_words", "min_plain_fragment_words", "min_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"ProseLines.{name} is {getattr(self, name)}; give a fraction from 0 to 1")

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page with its prose, or ``Dropped``; ``counts`` gets the decisions about lines."""
        lines = self._decided(page.text)
        counts.update(line.decision for line in lines if line.decision != BLANK)
        return self._result(page, lines)

    def explain(self, page: Page) -> Explanation:
        """Return the outcome of ``apply``, and the decision about each line."""
        lines = self._decided(page.text)
        verdicts = [
            LineVerdict(
                line.text,
                line.decision,
                line.text if line.decision == c4_rules.PASSED else None,
                count_sentences(line.text) if line.decision == c4_rules.PASSED else None,
            )
            for line in lines
            if line.decision != BLANK
        ]
        return Explanation(self._result(page, lines), tuple(verdicts))

    def _result(self, page: Page, lines: list[_Line]) -> Page | Dropped:
        kept = [line for line in lines if line.decision == c4_rules.PASSED]
        sentences = [line.text for line in kept if line.kind == "sentence"]
        if not c4_rules.has_sentences(sentences, self.min_sentences):
            return Dropped(c4_rules.TOO_FEW_SENTENCES)
        text = "\n".join(line.text for line in kept)
        if len(text) < self.min_share * sum(len(line.text) for line in lines):
            return Dropped(MOSTLY_OTHER)
        return page._replace(text=text)

    def _decided(self, text: str) -> list[_Line]:
        cells = (cell for line in text.splitlines() for cell in _CELLS.split(line.strip()))
        lines = [self._line(" ".join(cell.split())) for cell in cells]
        solid = [index for index, line in enumerate(lines) if line.text]
        start = 0
        while start < len(solid):
            end = start
            while end < len(solid) and lines[solid[end]].kind == "fragment":
                end += 1
            if end > start:
                before = lines[solid[start - 1]] if start else None
                after = lines[solid[end]] if end < len(solid) else None
                for index in solid[start : start + self._num_dropped(before, after, end - start)]:
                    lines[index] = lines[index]._replace(decision=FRAGMENT)
            start = max(end, start + 1)
        return lines

    def _num_dropped(self, before: _Line | None, after: _Line | None, count: int) -> int:
        """Return how many of a run's fragments go, from its start."""
        if before is not None and before.kind == "sentence" and before.text.endswith(":"):
            return 0 if count <= self.max_items else count
        if after is not None and after.kind == "sentence":
            return 0 if count <= self.max_headings else count - 1
        return count

    def _line(self, text: str) -> _Line:
        if not text:
            return _Line(text, "other", BLANK)
        if _UNREADABLE.search(text) or c4_rules.has_longer_word(text, self.max_word_chars):
            return _Line(text, "other", NOT_PROSE)
        numbering = _NUMBERING.match(text)
        words = text[numbering.end() :] if numbering else text
        num_words = words.count(" ") + 1
        plain = sum(1 for _ in _PLAIN_WORD.finditer(words)) / num_words
        is_english = num_words < _LONG_LINE or _STOP_WORD.search(text) is not None
        if text.rstrip(_CLOSING).endswith(_END_MARKS) and num_words >= self.min_words:
            is_sentence = is_english and plain >= self.min_plain_words
            return (
                _Line(text, "sentence", c4_rules.PASSED) if is_sentence else _Line(text, "other", NOT_PROSE)
            )
        if text.endswith(_OPEN_ENDS):  # "and:" before an example, half of a sentence
            return _Line(text, "other", FRAGMENT)
        if is_english and plain >= self.min_plain_fragment_words and num_words <= self.max_fragment_words:
            return _Line(text, "fragment", c4_rules.PASSED)
        return _Line(text, "other", NOT_PROSE)
