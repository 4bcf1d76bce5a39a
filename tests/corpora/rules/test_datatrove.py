"""Rules of ``fineweb.gin`` against datatrove's filters, page by page, on documentation that Debian packages ship."""

import json
from collections import Counter

import pytest

from benchmarks.datatrove_agreement import agreement, rules_of
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.blocked_urls import BlockedUrls
from t5x_like.corpora.rules.rule import Dropped
from tests.references import FIXTURES

FOLDER = FIXTURES / "datatrove"


@pytest.fixture(scope="module")
def figures():
    return agreement(FOLDER, rules_of("fineweb"))


@pytest.mark.parametrize("rule", ["gopher_repetition", "paragraphs"])
def test_these_rules_have_datatroves_verdict_on_every_page(figures, rule):
    assert figures[rule]["differing"] == []
    assert 10 < figures[rule]["dropped by datatrove"] < figures[rule]["pages"] - 10


def test_other_rules_differ_by_few_pages(figures):
    """Words of rare forms are split otherwise; Punkt finds other ends of sentences than spaCy."""
    for rule in ("gopher_quality", "c4", "fineweb"):
        assert len(figures[rule]["differing"]) <= 0.01 * figures[rule]["pages"], figures[rule]["differing"]
        assert figures[rule]["dropped by datatrove"] > 10
    assert figures["c4"]["same text"] >= 0.99 * figures["c4"]["kept by both"] > 50


def test_the_papers_counting_drops_other_pages(figures):
    for rule in ("gopher_repetition", "gopher_quality", "fineweb"):
        assert figures[rule]["same verdict with the paper's counting"] < 0.95 * figures[rule]["pages"]


def test_masks_differ_only_for_numbers_of_sections(figures):
    assert figures["masks"]["masked by datatrove"] >= 20
    assert len(figures["masks"]["differing"]) <= 0.02 * figures["masks"]["pages"]


def test_urls_have_datatroves_verdict(tmp_path):
    reference = json.loads((FOLDER / "urls.json").read_text())
    for name, lines in reference["lists"].items():
        (tmp_path / name).write_text("\n".join(lines))
    rule = BlockedUrls(lists=str(tmp_path))
    for url, reason in reference["verdicts"].items():
        result = rule.apply(Page(url, "text"), Counter())
        assert isinstance(result, Dropped) == bool(reason), (url, reason)
    assert set(reference["verdicts"].values()) == {
        "", "domain", "subdomain", "url", "hard_blacklisted", "soft_blacklisted", "blacklisted_subword",
    }  # fmt: skip
