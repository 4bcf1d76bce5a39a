"""Removal of repeated lines in the whole corpus, as in C4: menus and notices would occur on millions of pages."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from t5x_like.corpora.duplicates.duplicate_rule import (
    PagePosition,
    digest,
    make_keys,
    rank_from_digest,
)
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.sentences import has_sentences


@dataclass(frozen=True, kw_only=True)
class DuplicateLines:
    """Keeps each line on one page: the page whose URL has the smallest md5, and there its first occurrence.

    Lines are compared stripped and in lower case. The md5 is that of the URL in the crawl, not of the normalized URL.
    The remaining text needs ``min_sentences``, counted over the whole text: the end of a line alone ends no sentence.

    As TensorFlow Datasets builds C4 (text/c4_utils.py). Raffel et al. 2020, §2.2, https://arxiv.org/abs/1910.10683,
    describe spans of three sentences instead, see ``DuplicateSpans``.

    Attributes:
      min_sentences: Fewest sentences that the remaining text of a page must have.
    """

    NAME: ClassVar[str] = "dedupe-lines"
    VERSION: ClassVar[int] = 1
    BY_HASH_ALONE: ClassVar[bool] = True

    min_sentences: int = 3

    def keys(self, page: Page, position: PagePosition) -> np.ndarray:  # noqa: ARG002
        """Return ``KEY`` [number of lines]."""
        return make_keys(map(_line_digest, page.text.split("\n")), rank=rank_from_digest(digest(page.url)))

    def remove(self, page: Page, parts: np.ndarray, counts: Counter[str]) -> Page | Dropped:
        """Return the page without the removed lines if enough sentences remain."""
        lines = page.text.split("\n")
        removed = set(parts.tolist())
        kept = [line for index, line in enumerate(lines) if index not in removed]
        if removed:
            _count(lines, kept, removed, counts)
        if kept:
            counts["line-passed"] += len(kept)
        text = "\n".join(kept)
        if not text:
            return Dropped("filtered:empty")
        if not has_sentences(text, self.min_sentences):
            return Dropped("filtered:too_few_sentences")
        return page._replace(text=text)

    def texts(self, page: Page, parts: np.ndarray) -> list[str]:
        """Return the removed lines."""
        lines = page.text.split("\n")
        return [lines[part].strip() for part in parts.tolist()]


def _count(lines: list[str], kept: list[str], removed: set[int], counts: Counter[str]) -> None:
    """Count removed lines: local duplicates stay elsewhere on their page, global duplicates stay on another page."""
    kept_lines = {line.strip().lower() for line in kept}
    local = sum(lines[line_index].strip().lower() in kept_lines for line_index in removed)
    if local:
        counts["line-filtered:local_duplicate"] += local
    if local < len(removed):
        counts["line-filtered:global_duplicate"] += len(removed) - local


def _line_digest(line: str) -> bytes:
    return digest(line.strip().lower())
