"""Counts of pages by step and outcome, which add up over tasks, and samples of pages for each outcome."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import BatchRule, Dropped, PageRule

SAMPLES = 5  # pages of each outcome
SAMPLE_CHARS = 1000
REPEATED = 100  # texts of each task that were removed most often
KEPT = "kept"
_PAGES_AT_ONCE = 512  # for rules that look at many
_CHARS_AT_ONCE = 8 * 10**6
_Item = TypeVar("_Item")


class RuleOutcome(NamedTuple):
    """The result of several rules applied to a page.

    Attributes:
      page: The page after the rules, or as the rule that dropped it received it.
      dropped: Index of the step that dropped the page, and the reason.
      seen: Counts inside the page: step, name, count.
    """

    page: Page
    dropped: tuple[int, str] | None = None
    seen: tuple[tuple[int, str, int], ...] = ()

    def followed_by(self, step: int, result: Page | Dropped, counts: Mapping[str, int]) -> "RuleOutcome":
        """Return the outcome after one more rule.

        Args:
          step: Index of the rule's step.
          result: Outcome of the rule alone.
          counts: Its counts inside the page.
        """
        seen = self.seen + tuple((step, name, count) for name, count in counts.items())
        if isinstance(result, Dropped):
            return RuleOutcome(self.page, (step, result.reason), seen)
        return RuleOutcome(result, None, seen)


def apply_rules(rules: Sequence[tuple[int, PageRule]], pages: Sequence[Page]) -> list[RuleOutcome]:
    """Apply rules to pages, to each up to the first that drops it.

    Args:
      rules: Rules with the indices of their steps.
      pages: The pages.

    Raises:
      ValueError: A rule failed; the message names the rule and the page.
    """
    outcomes = [RuleOutcome(page) for page in pages]
    for step, rule in rules:
        rest = [index for index, outcome in enumerate(outcomes) if outcome.dropped is None]
        counts: list[Counter[str]] = [Counter() for _ in rest]
        results = _results(rule, [outcomes[index].page for index in rest], counts)
        for index, result, seen in zip(rest, results, counts, strict=True):
            outcomes[index] = outcomes[index].followed_by(step, result, seen)
    return outcomes


def _results(
    rule: PageRule, pages: Sequence[Page], counts: Sequence[Counter[str]]
) -> Iterable[Page | Dropped]:
    if not pages:
        return
    page = pages[0]
    try:
        if isinstance(rule, BatchRule):
            yield from rule.apply_batch(pages, counts)
            return
        for page, seen in zip(pages, counts, strict=True):
            yield rule.apply(page, seen)
    except Exception as error:
        raise rule_failed(rule.NAME, page, error) from error


def page_blocks(
    rules: Sequence[tuple[int, PageRule]], items: Iterable[_Item], text_of: Callable[[_Item], str]
) -> Iterator[list[_Item]]:
    """Yield pages one by one, or many at once if a rule is a ``BatchRule``.

    Args:
      rules: Rules with the indices of their steps.
      items: Pages, or values that have one.
      text_of: Text of an item; it bounds the memory of a block.
    """
    most = _PAGES_AT_ONCE if any(isinstance(rule, BatchRule) for _, rule in rules) else 1
    block: list[_Item] = []
    chars = 0
    for item in items:
        block.append(item)
        chars += len(text_of(item))
        if len(block) >= most or chars >= _CHARS_AT_ONCE:
            yield block
            block, chars = [], 0
    if block:
        yield block


def rule_failed(name: str, page: Page, error: Exception) -> ValueError:
    """Return the error for a rule that failed on a page.

    Args:
      name: Name of the rule.
      page: The page.
      error: What the rule raised.
    """
    reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return ValueError(f"{reason} (step {name}, page {page.url})")


class Tally:
    """Counts of pages by step and outcome, and samples of them.

    Attributes:
      passed: Pages that passed each step.
      dropped: Pages that each step dropped, by reason.
      seen: Counts inside pages of each step, by name.
      repeated: Texts that each step removed most often.
    """

    def __init__(self, num_steps: int) -> None:
        self.passed = [0] * num_steps
        self.dropped: list[Counter[str]] = [Counter() for _ in range(num_steps)]
        self.seen: list[Counter[str]] = [Counter() for _ in range(num_steps)]
        self.repeated = [FrequentTexts() for _ in range(num_steps)]
        self._samples: dict[tuple[int, str], list[tuple[int, str, str]]] = {}

    def count(self, numbers: Iterable[int], dropped: tuple[int, str] | None) -> None:
        """Count a page that went through steps.

        Args:
          numbers: Indices of the steps, in order.
          dropped: The step that dropped the page and the reason, or None.
        """
        for step in numbers:
            if dropped is not None and step == dropped[0]:
                self.dropped[step][dropped[1]] += 1
                return
            self.passed[step] += 1

    def see(self, seen: Iterable[tuple[int, str, int]]) -> None:
        """Add counts inside a page: step, name, count."""
        for step, name, count in seen:
            self.seen[step][name] += count

    def sample(self, outcome: tuple[int, str], url_digest: bytes, url: str, text: str) -> None:
        """Add a page to the samples of an outcome if its URL digest is among the lowest.

        Args:
          outcome: Step and outcome.
          url_digest: MD5 digest of the normalized URL.
          url: URL as its source has it.
          text: Text; its beginning is kept.
        """
        entry = (-int.from_bytes(url_digest, "big"), url, text[:SAMPLE_CHARS])
        samples = self._samples.setdefault(outcome, [])
        if entry in samples:
            return
        if len(samples) < SAMPLES:
            heapq.heappush(samples, entry)
        else:
            heapq.heappushpop(samples, entry)

    def to_json(self) -> dict[str, Any]:
        """Return all counts and samples as JSON."""
        samples = [
            [*outcome, *entry[1:], f"{-entry[0]:032x}"]
            for outcome, entries in sorted(self._samples.items())
            for entry in sorted(entries, reverse=True)
        ]
        return {
            "passed": self.passed,
            "dropped": self.dropped,
            "seen": self.seen,
            "repeated": [texts.most(REPEATED) for texts in self.repeated],
            "samples": samples,
        }

    def add_json(self, value: Mapping[str, Any]) -> None:
        """Add the counts and samples of another task's ``to_json``."""
        self.passed = [total + added for total, added in zip(self.passed, value["passed"], strict=True)]
        for total, added in zip(
            (*self.dropped, *self.seen), (*value["dropped"], *value["seen"]), strict=True
        ):
            total.update(added)
        for texts, counts in zip(self.repeated, value["repeated"], strict=True):
            texts.add_counts(counts)
        for step, reason, url, text, digest in value["samples"]:
            self.sample((step, reason), bytes.fromhex(digest), url, text)

    def samples(self) -> list[tuple[int, str, str, str]]:
        """Return samples: step (the number of steps for kept pages), outcome, URL and beginning of the text."""
        return [tuple(row[:4]) for row in self.to_json()["samples"]]


_MAX_TEXTS = 20_000
_CHARS = 200  # of each text


class FrequentTexts:
    """Counts texts by their first characters; discards the rarer half when there are too many.

    Frequent texts are rarely discarded, so their counts are exact or slightly low (compare lossy counting: Manku and
    Motwani 2002, https://www.vldb.org/conf/2002/S10P03.pdf). The same texts in the same order give the same counts.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, texts: Iterable[str]) -> None:
        """Count each text once."""
        self._counts.update(text[:_CHARS] for text in texts)
        self._discard_rare()

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add counts from another task."""
        self._counts.update(counts)
        self._discard_rare()

    def most(self, num_texts: int) -> dict[str, int]:
        """Return the most frequent texts in order. Lone surrogates, invalid in UTF-8, become question marks."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return {text.encode("utf-8", "replace").decode(): count for text, count in ordered[:num_texts]}

    def _discard_rare(self) -> None:
        if len(self._counts) > _MAX_TEXTS:
            ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
            self._counts = Counter(dict(ordered[: _MAX_TEXTS // 2]))
