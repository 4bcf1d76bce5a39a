"""C4's cleaning of a page: its lines that are sentences, if they are prose and there are enough of them."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules import c4_rules
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.sentences import count_sentences


class LineVerdict(NamedTuple):
    """What becomes of a line by itself."""

    line: str  # as the page has it
    decision: str  # line-passed, line-filtered:…, or filtered:… where the whole page goes because of it
    out: str | None = None  # as it stays
    sentences: int | None = None  # in what stays


class Explanation(NamedTuple):
    """What becomes of a page, and of each of its lines."""

    result: Page | Dropped
    lines: tuple[LineVerdict, ...]


@dataclass(frozen=True, kw_only=True)
class C4Cleaning:
    """The line and page rules of C4, in its order; each can be switched off.

    A line is stripped; goes if it has too long a word; loses its citation marks; goes unless it ends a sentence and has
    enough words; makes the page go if it is a placeholder; goes if it names JavaScript; makes the page go if it has a
    curly bracket; goes if it names a policy. Sentences of what stays are counted line by line. A line that is gone asks
    nothing of the page; one that makes the page go ends the count of lines.

    Raffel et al. 2020, §2.2, https://arxiv.org/abs/1910.10683, as TensorFlow Datasets builds C4 (text/c4_utils.py).

    Cleaning what is clean changes nothing, but for what a removed citation leaves: white space where a line began with
    one (``[1] So``), and brackets that now look like one (``[[1]2]``). Both go the next time.

    Raises:
      ValueError: a threshold is too low.
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
        """The page with what stays of its lines, or why it goes; ``counts`` gets the lines' decisions."""
        lines, decisions = self._sentences(page.text)
        text = "\n".join(lines)
        if self._names_something(text):
            return self._line_by_line(page, counts)
        counts.update(decisions)
        return self._whole(page, lines, text)

    def explain(self, page: Page) -> Explanation:
        """What ``apply`` does, and why: each line is judged as if the page had no other."""
        lines = tuple(self._explain(line) for line in page.text.splitlines())
        for verdict in lines:
            if is_about_page(verdict.decision):
                return Explanation(Dropped(verdict.decision), lines)
        if sum(verdict.sentences or 0 for verdict in lines) < self.min_sentences:
            return Explanation(Dropped(c4_rules.TOO_FEW_SENTENCES), lines)
        kept = "\n".join(verdict.out for verdict in lines if verdict.out is not None)
        return Explanation(page._replace(text=kept.strip()), lines)

    def _explain(self, line: str) -> LineVerdict:
        decision, out = self._judge(line)
        return LineVerdict(line, decision, out, None if out is None else count_sentences(out))

    def _sentences(self, text: str) -> tuple[list[str], dict[str, int]]:
        """Lines that pass the rules which ask nothing of the page, and how many didn't, by rule."""
        all_lines = text.splitlines()
        worth_a_look = self._worth_a_look(all_lines)
        without_citations = c4_rules.without_citations if self.remove_citations and "[" in text else str
        lines, long_words, no_end, short = [], 0, len(all_lines) - len(worth_a_look), 0
        for stripped in worth_a_look:
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
        return lines, {decision: number for decision, number in decisions.items() if number}

    def _worth_a_look(self, lines: list[str]) -> list[str]:
        """Stripped lines without most of those whose last character shows that they end no sentence."""
        if not self.require_end_mark:
            return [line.strip() for line in lines]
        longest = self.max_word_chars
        return [
            line
            for line in map(str.strip, lines)
            if line[-1:] in c4_rules.MAY_COME_LAST or len(line) > longest
        ]

    def _names_something(self, text: str) -> bool:
        """Whether any of the lines is for the rules that look for words and brackets."""
        lowered = text.lower()
        return (
            (self.drop_code_pages and c4_rules.is_code(text))
            or (self.drop_placeholder_pages and c4_rules.is_placeholder(lowered))
            or (self.drop_javascript_lines and c4_rules.names_javascript(lowered))
            or (self.drop_policy_lines and c4_rules.names_policy(lowered))
        )

    def _line_by_line(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        lines = []
        for line in page.text.splitlines():
            decision, out = self._judge(line)
            if is_about_page(decision):
                return Dropped(decision)
            counts[decision] += 1
            if out is not None:
                lines.append(out)
        return self._whole(page, lines, "\n".join(lines))

    def _whole(self, page: Page, lines: list[str], text: str) -> Page | Dropped:
        if not c4_rules.has_sentences(lines, self.min_sentences):
            return Dropped(c4_rules.TOO_FEW_SENTENCES)
        return page._replace(text=text.strip())

    def _judge(self, line: str) -> tuple[str, str | None]:
        """A line's decision, and the line as it stays if it does."""
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
        if self.drop_placeholder_pages and c4_rules.is_placeholder(lowered):
            return c4_rules.LOREM_IPSUM, None
        if self.drop_javascript_lines and c4_rules.names_javascript(lowered):
            return c4_rules.NAMES_JAVASCRIPT, None
        if self.drop_code_pages and c4_rules.is_code(line):
            return c4_rules.CODE, None
        if self.drop_policy_lines and c4_rules.names_policy(lowered):
            return c4_rules.NAMES_POLICY, None
        return c4_rules.PASSED, line


def is_about_page(decision: str) -> bool:
    """Whether a line's decision is that its page goes."""
    return not decision.startswith("line-")
