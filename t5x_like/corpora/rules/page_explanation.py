"""Explanation of the decisions of page rules about one page: every rule's verdict and every line's."""

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
    """The decision of one rule.

    Attributes:
      name: Name of the rule.
      decision: ``passed``, ``filtered:…`` or ``not reached``.
      counts: The rule's counts inside the page.
    """

    name: str
    decision: str
    counts: Mapping[str, int]


class ExplainedPage(NamedTuple):
    """The outcome for a page.

    Attributes:
      cleaned_text: Text after the rules for lines; None if these drop the page.
      reason: Reason of the first rule that drops the page, or None.
      rules: Decision of each rule.
      lines: Decision about each line.
    """

    cleaned_text: str | None
    reason: str | None
    rules: tuple[RuleVerdict, ...]
    lines: tuple[LineVerdict, ...]

    @property
    def kept(self) -> bool:
        """True if every rule passes the page."""
        return self.reason is None


@runtime_checkable
class _LineRule(PageRule, Protocol):
    def explain(self, page: Page) -> Explanation: ...


def explain_page(page: Page, rules: Sequence[PageRule]) -> ExplainedPage:
    """Apply rules in order and record all decisions.

    If a page is dropped before the rules for lines, these still see it unchanged, so that its lines are explained.
    Rules after them aren't applied to a dropped page. Without a rule for lines, every line passes.

    Args:
      page: Page as read.
      rules: Rules in the order of the recipe.

    Raises:
      ValueError: A resource that a rule needs is missing.
    """
    lines = tuple(LineVerdict(line, PASSED, line) for line in page.text.splitlines())
    cleaned: str | None = page.text
    cleaning = {index: rule for index, rule in enumerate(rules) if isinstance(rule, _LineRule)}
    verdicts: list[RuleVerdict] = []
    reason, is_gone = None, False
    for index, rule in enumerate(rules):
        if is_gone:
            verdicts.append(RuleVerdict(rule.NAME, NOT_REACHED, {}))
            continue
        counts: Counter[str] = Counter()
        result = rule.apply(page, counts)
        kept, dropped = (None, result.reason) if isinstance(result, Dropped) else (result, None)
        verdicts.append(RuleVerdict(rule.NAME, dropped or KEPT, counts))
        if index in cleaning:
            lines = cleaning[index].explain(page).lines
            cleaned = kept and kept.text
        reason = reason or dropped
        is_gone = dropped is not None and not any(later > index for later in cleaning)
        page = kept or page
    return ExplainedPage(cleaned, reason, tuple(verdicts), lines)
