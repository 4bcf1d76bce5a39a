"""Applies rules for duplicates to pages in memory; the stages of a build do the same with files."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from t5x_like.corpora.duplicates.duplicate_rule import DuplicateRule, PagePlace
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.url_lists import normalize_url, url_digest

NUM_PARTITIONS = 3


def deduplicate(
    rule: DuplicateRule, pages: Sequence[Page], counts: Counter[str] | None = None
) -> dict[str, Page | Dropped]:
    """Return by URL the page after the rule, or ``Dropped``."""
    counts = Counter() if counts is None else counts
    keys = np.concatenate([keys_of_page(rule, page, number) for number, page in enumerate(pages)])
    hashes = keys["hash_high"] % np.uint64(NUM_PARTITIONS)
    matched = np.concatenate([rule.match(keys[hashes == part]) for part in range(NUM_PARTITIONS)])
    gone = rule.resolve(matched)
    results = {}
    for number, page in enumerate(pages):
        mine = gone[
            (gone["page"] == number // NUM_PARTITIONS) & (gone["partition"] == number % NUM_PARTITIONS)
        ]
        results[page.url] = rule.remove(page, np.sort(mine["part"].astype(np.int64)), counts)
        fate = results[page.url]
        counts[fate.reason if isinstance(fate, Dropped) else "passed"] += 1
    return results


def texts(rule: DuplicateRule, pages: Sequence[Page]) -> dict[str, str]:
    """Return by URL the remaining texts of pages that stay."""
    return {url: page.text for url, page in deduplicate(rule, pages).items() if not isinstance(page, Dropped)}


def keys_of_page(rule: DuplicateRule, page: Page, number: int) -> np.ndarray:
    """Return ``KEY`` [number of parts] of a page with this number."""
    place = PagePlace(url_digest(normalize_url(page.url)), source=0, record=number)
    keys = rule.keys(page, place)
    keys["partition"], keys["page"] = number % NUM_PARTITIONS, number // NUM_PARTITIONS
    return keys
