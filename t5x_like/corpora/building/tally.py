"""What became of pages, step by step: counts that add up over tasks, and a few pages of each fate."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped, PageRule

SAMPLES = 5  # pages of each fate
SAMPLE_CHARS = 1500
REPEATED = 100  # texts of each task that were removed most often
KEPT = "kept"


class Outcome(NamedTuple):
    """What some rules in a row did to a page."""

    page: Page  # as it is after them, or as the last one got it
    dropped: tuple[int, str] | None = None  # by which step, and why
    seen: tuple[tuple[int, str, int], ...] = ()  # step, what it counted inside the page, how many


def apply_rules(rules: Sequence[tuple[int, PageRule]], page: Page) -> Outcome:
    """Applies rules, given with the numbers of their steps, up to the first that drops the page.

    Raises:
      ValueError: a rule failed; names it and the page.
    """
    seen: list[tuple[int, str, int]] = []
    for number, rule in rules:
        counts: Counter[str] = Counter()
        try:
            result = rule.apply(page, counts)
        except Exception as error:
            raise rule_failed(rule.NAME, page, error) from error
        if counts:
            seen += [(number, name, count) for name, count in counts.items()]
        if isinstance(result, Dropped):
            return Outcome(page, (number, result.reason), tuple(seen))
        page = result
    return Outcome(page, None, tuple(seen))


def rule_failed(name: str, page: Page, error: Exception) -> ValueError:
    """What the user reads where a rule raised something."""
    told = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return ValueError(f"{told} (step {name}, page {page.url})")


class Tally:
    """Counts of pages by step and fate, and samples of them."""

    def __init__(self, num_steps: int) -> None:
        self.passed = [0] * num_steps
        self.dropped: list[Counter[str]] = [Counter() for _ in range(num_steps)]
        self.seen: list[Counter[str]] = [Counter() for _ in range(num_steps)]
        self.repeated = [Frequent() for _ in range(num_steps)]
        self._samples: dict[tuple[int, str], list[tuple[int, str, str]]] = {}

    def count(self, numbers: Iterable[int], dropped: tuple[int, str] | None) -> None:
        """Counts a page that went through the steps of these numbers, in order, up to the one that dropped it."""
        for number in numbers:
            if dropped is not None and number == dropped[0]:
                self.dropped[number][dropped[1]] += 1
                return
            self.passed[number] += 1

    def see(self, seen: Iterable[tuple[int, str, int]]) -> None:
        """Counts what was seen inside a page."""
        for number, name, count in seen:
            self.seen[number][name] += count

    def wants_sample(self, fate: tuple[int, str], url_digest: bytes) -> bool:
        """Whether a page of this fate would be among its samples: those of the lowest digests."""
        held = self._samples.get(fate, [])
        return len(held) < SAMPLES or -int.from_bytes(url_digest, "big") > held[0][0]

    def sample(self, fate: tuple[int, str], url_digest: bytes, url: str, text: str) -> None:
        """Takes a page as a sample, if it is one."""
        entry = (-int.from_bytes(url_digest, "big"), url, text[:SAMPLE_CHARS])
        held = self._samples.setdefault(fate, [])
        if entry in held:
            return
        if len(held) < SAMPLES:
            heapq.heappush(held, entry)
        else:
            heapq.heappushpop(held, entry)

    def to_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        samples = [
            [*fate, *entry[1:], f"{-entry[0]:032x}"]
            for fate, held in sorted(self._samples.items())
            for entry in sorted(held, reverse=True)
        ]
        return {
            "passed": self.passed,
            "dropped": self.dropped,
            "seen": self.seen,
            "repeated": [texts.most(REPEATED) for texts in self.repeated],
            "samples": samples,
        }

    def add_json(self, value: Mapping[str, Any]) -> None:
        """Adds what ``to_json`` gave of another."""
        self.passed = [ours + theirs for ours, theirs in zip(self.passed, value["passed"], strict=True)]
        for ours, theirs in zip(
            (*self.dropped, *self.seen), (*value["dropped"], *value["seen"]), strict=True
        ):
            ours.update(theirs)
        for texts, counts in zip(self.repeated, value["repeated"], strict=True):
            texts.add_counts(counts)
        for number, reason, url, text, digest in value["samples"]:
            self.sample((number, reason), bytes.fromhex(digest), url, text)

    def samples(self) -> list[tuple[int, str, str, str]]:
        """Step (the number of steps for pages that are kept), fate, address and beginning of the text."""
        return [tuple(row[:4]) for row in self.to_json()["samples"]]


_HELD = 20_000
_CHARS = 200  # of each text


class Frequent:
    """Counts texts by their first characters; when there are too many, the rarer half is forgotten.

    A text of which there are many is hardly ever among those, so its count is exact or a little low (compare lossy
    counting: Manku and Motwani 2002, https://www.vldb.org/conf/2002/S10P03.pdf). The same texts in the same order have
    the same counts.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, texts: Iterable[str]) -> None:
        """Counts each text once."""
        self._counts.update(text[:_CHARS] for text in texts)
        self._forget()

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Counts what was counted elsewhere."""
        self._counts.update(counts)
        self._forget()

    def most(self, number: int) -> dict[str, int]:
        """The most frequent, in order. Lone surrogates, which no file can hold, become question marks."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return {text.encode("utf-8", "replace").decode(): count for text, count in ordered[:number]}

    def _forget(self) -> None:
        if len(self._counts) > _HELD:
            ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
            self._counts = Counter(dict(ordered[: _HELD // 2]))
