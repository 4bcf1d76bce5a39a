"""C4's cleaning of a page: keeps lines that are sentences, if the page is prose and enough of them remain."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules import c4_rules
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.sentences import count_sentences


class LineVerdict(NamedTuple):
    """The decision about one line.

    Attributes:
      line: The line as the page has it.
      decision: ``line-passed``, ``line-filtered:…``, or ``filtered:…`` if the line drops the whole page.
      out: The line after cleaning; None for a removed line.
      sentences: Number of sentences in ``out``.
    """

    line: str
    decision: str
    out: str | None = None
    sentences: int | None = None


class Explanation(NamedTuple):
    """The outcome for a page, and the decision about each of its lines."""

    result: Page | Dropped
    lines: tuple[LineVerdict, ...]


@dataclass(frozen=True, kw_only=True)
class C4Cleaning:
    """The line and page rules of C4, in its order; each can be switched off.

    For each line, in this order: it is stripped; removed if a word is too long; loses its citation marks; removed
    unless it ends a sentence and has enough words; drops the page if it is placeholder text; removed if it mentions
    JavaScript; drops the page if it has a curly bracket; removed if it mentions a policy. Sentences of the remaining
    lines are counted line by line. A removed line can't drop the page; a line that drops the page ends the counts of
    lines.

    Cleaning a clean page changes nothing, except for what a removed citation leaves: whitespace at the start of a line
    (``[1] So``), and brackets that now look like a citation (``[[1]2]``). A second pass removes both.

    Raffel et al. 2020, §2.2, https://arxiv.org/abs/1910.10683, as TensorFlow Datasets builds C4 (text/c4_utils.py).

    Attributes:
      max_word_chars: Longest word of a line, in characters.
      remove_citations: Remove citation marks such as ``[3]``.
      require_end_mark: Remove lines that don't end a sentence.
      min_words: Fewest words of a line.
      drop_placeholder_pages: Drop pages with "lorem ipsum".
      drop_javascript_lines: Remove lines that mention JavaScript.
      drop_code_pages: Drop pages with a curly bracket.
      drop_policy_lines: Remove lines about cookies, privacy or terms of use.
      min_sentences: Fewest sentences of a page.

    Raises:
      ValueError: A threshold is too low.
    """

    NAME: ClassVar[str] = "clean-page"
    VERSION: ClassVar[int] = 1

    max_word_chars: int = c4_rules.MAX_WORD_CHARS
    remove_citations: bool = True
    require_end_mark: bool = True
    min_words: int = c4_rules.MIN_WORDS
    drop_placeholder_pages: bool = True
    drop_javascript_lines: bool = True
    drop_code_pages: bool = True
    drop_policy_lines: bool = True
    min_sentences: int = c4_rules.MIN_SENTENCES

    def __post_init__(self) -> None:
        for name, least in (("max_word_chars", 1), ("min_words", 1), ("min_sentences", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"C4Cleaning.{name} is {getattr(self, name)}; it must be at least {least}")

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page with its remaining lines, or ``Dropped``; ``counts`` gets the decisions about lines."""
        lines, decisions = self._sentences(page.text)
        text = "\n".join(lines)
        if self._needs_line_rules(text):
            return self._line_by_line(page, counts)
        counts.update(decisions)
        return self._whole(page, lines, text)

    def explain(self, page: Page) -> Explanation:
        """Return the outcome of ``apply``, and the decision about each line as if it were the page's only one."""
        lines = tuple(self._explain(line) for line in page.text.splitlines())
        for verdict in lines:
            if drops_page(verdict.decision):
                return Explanation(Dropped(verdict.decision), lines)
        if sum(verdict.sentences or 0 for verdict in lines) < self.min_sentences:
            return Explanation(Dropped(c4_rules.TOO_FEW_SENTENCES), lines)
        kept = "\n".join(verdict.out for verdict in lines if verdict.out is not None)
        return Explanation(page._replace(text=kept.strip()), lines)

    def _explain(self, line: str) -> LineVerdict:
        decision, out = self._filter_line(line)
        return LineVerdict(line, decision, out, None if out is None else count_sentences(out))

    def _sentences(self, text: str) -> tuple[list[str], dict[str, int]]:
        """Return lines that pass the rules for lines alone, and the number of removed lines by rule."""
        all_lines = text.splitlines()
        candidates = self._candidate_lines(all_lines)
        without_citations = c4_rules.without_citations if self.remove_citations and "[" in text else str
        lines, long_words, no_end, short = [], 0, len(all_lines) - len(candidates), 0
        for stripped in candidates:
            if len(stripped) > self.max_word_chars and c4_rules.has_longer_word(
                stripped, self.max_word_chars
            ):
                long_words += 1
                continue
            line = without_citations(stripped)
            if self.require_end_mark and not c4_rules.ends_a_sentence(line):
                no_end += 1
            elif c4_rules.has_words(line, self.min_words):
                lines.append(line)
            else:
                short += 1
        decisions = {
            c4_rules.TOO_LONG_WORD: long_words,
            c4_rules.NO_END_MARK: no_end,
            c4_rules.TOO_SHORT: short,
            c4_rules.PASSED: len(lines),
        }
        return lines, {decision: count for decision, count in decisions.items() if count}

    def _candidate_lines(self, lines: list[str]) -> list[str]:
        """Return stripped lines without most of those whose last character shows that they end no sentence."""
        if not self.require_end_mark:
            return [line.strip() for line in lines]
        longest = self.max_word_chars
        return [
            line
            for line in map(str.strip, lines)
            if line[-1:] in c4_rules.MAY_COME_LAST or len(line) > longest
        ]

    def _needs_line_rules(self, text: str) -> bool:
        """Return True if any rule that looks for words or brackets may apply."""
        lowered = text.lower()
        return (
            (self.drop_code_pages and c4_rules.CURLY_BRACKET in text)
            or (self.drop_placeholder_pages and c4_rules.PLACEHOLDER in lowered)
            or (self.drop_javascript_lines and c4_rules.JAVASCRIPT in lowered)
            or (self.drop_policy_lines and c4_rules.mentions_policy(lowered))
        )

    def _line_by_line(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        lines = []
        for line in page.text.splitlines():
            decision, out = self._filter_line(line)
            if drops_page(decision):
                return Dropped(decision)
            counts[decision] += 1
            if out is not None:
                lines.append(out)
        return self._whole(page, lines, "\n".join(lines))

    def _whole(self, page: Page, lines: list[str], text: str) -> Page | Dropped:
        if not c4_rules.has_sentences(lines, self.min_sentences):
            return Dropped(c4_rules.TOO_FEW_SENTENCES)
        return page._replace(text=text.strip())

    def _filter_line(self, line: str) -> tuple[str, str | None]:
        """Return a line's decision, and the cleaned line if it stays."""
        line = line.strip()
        if c4_rules.has_longer_word(line, self.max_word_chars):
            return c4_rules.TOO_LONG_WORD, None
        if self.remove_citations:
            line = c4_rules.without_citations(line)
        if self.require_end_mark and not c4_rules.ends_a_sentence(line):
            return c4_rules.NO_END_MARK, None
        if not c4_rules.has_words(line, self.min_words):
            return c4_rules.TOO_SHORT, None
        lowered = line.lower()
        if self.drop_placeholder_pages and c4_rules.PLACEHOLDER in lowered:
            return c4_rules.LOREM_IPSUM, None
        if self.drop_javascript_lines and c4_rules.JAVASCRIPT in lowered:
            return c4_rules.MENTIONS_JAVASCRIPT, None
        if self.drop_code_pages and c4_rules.CURLY_BRACKET in line:
            return c4_rules.CODE, None
        if self.drop_policy_lines and c4_rules.mentions_policy(lowered):
            return c4_rules.MENTIONS_POLICY, None
        return c4_rules.PASSED, line


def drops_page(decision: str) -> bool:
    """Return True if a line's decision drops its page."""
    return not decision.startswith("line-")
