"""What rules for single pages make of one page, and why: every rule's verdict, and every line's."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.c4_rules import PASSED
from t5x_like.corpora.rules.cleaning import Explanation, LineVerdict
from t5x_like.corpora.rules.rule import Dropped, PageRule

KEPT = "passed"
NOT_REACHED = "not reached"


class RuleVerdict(NamedTuple):
    """What one rule says; ``counts`` is what it saw inside the page."""

    name: str
    decision: str  # passed, filtered:…, not reached
    counts: Mapping[str, int]


class ExplainedPage(NamedTuple):
    """What becomes of a page. ``reason`` is that of the first rule that drops it."""

    cleaned_text: str | None  # after the rules that look at lines; None where these drop the page
    reason: str | None
    rules: tuple[RuleVerdict, ...]
    lines: tuple[LineVerdict, ...]

    @property
    def kept(self) -> bool:
        """Whether every rule lets it pass."""
        return self.reason is None


@runtime_checkable
class _LineRule(PageRule, Protocol):
    def explain(self, page: Page) -> Explanation: ...


def explain_page(page: Page, rules: Sequence[PageRule]) -> ExplainedPage:
    """Applies rules in their order.

    A page that is dropped before its lines are looked at goes on as it is, so that its lines are judged all the same;
    after that no rule is asked about a page that is gone. Without a rule for lines every line passes.

    Raises:
      ValueError: what a rule needs is missing.
    """
    lines = tuple(LineVerdict(line, PASSED, line) for line in page.text.splitlines())
    cleaned: str | None = page.text
    cleaning = [number for number, rule in enumerate(rules) if isinstance(rule, _LineRule)]
    verdicts: list[RuleVerdict] = []
    reason, is_gone = None, False
    for number, rule in enumerate(rules):
        if is_gone:
            verdicts.append(RuleVerdict(rule.NAME, NOT_REACHED, {}))
            continue
        counts: Counter[str] = Counter()
        result = rule.apply(page, counts)
        dropped = result.reason if isinstance(result, Dropped) else None
        verdicts.append(RuleVerdict(rule.NAME, dropped or KEPT, counts))
        if isinstance(rule, _LineRule):
            lines = rule.explain(page).lines
            cleaned = None if isinstance(result, Dropped) else result.text
        reason = reason or dropped
        is_gone = dropped is not None and not any(later > number for later in cleaning)
        page = page if isinstance(result, Dropped) else result
    return ExplainedPage(cleaned, reason, tuple(verdicts), lines)
