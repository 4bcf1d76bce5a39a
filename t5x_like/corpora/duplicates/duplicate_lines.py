"""Every line once in the whole corpus: what C4's builder does, so that menus and notices don't come a million times."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from t5x_like.corpora.duplicates.duplicate_rule import PagePlace, digest, keys_of, later_ones, rank_of
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.sentences import has_sentences


@dataclass(frozen=True, kw_only=True)
class DuplicateLines:
    """Keeps each line on one page: the one whose address has the smallest md5, and there where it comes first.

    Lines are equal if they are so stripped and in lower case. The md5 is that of the address as the crawl has it,
    not of the normalised one. A page then needs ``min_sentences`` in what is left of it, counted over the whole text:
    a line's end alone ends no sentence. As TensorFlow Datasets builds C4 (text/c4_utils.py); Raffel et al. 2020 §2.2,
    https://arxiv.org/abs/1910.10683, describe spans of three sentences instead, see ``DuplicateSpans``.
    """

    NAME: ClassVar[str] = "dedupe-lines"
    VERSION: ClassVar[int] = 1
    BY_HASH_ALONE: ClassVar[bool] = True

    min_sentences: int = 3

    def keys(self, page: Page, place: PagePlace) -> np.ndarray:  # noqa: ARG002
        """``KEY`` [number of lines]."""
        return keys_of(map(_line_digest, page.text.split("\n")), rank=rank_of(digest(page.url)))

    def match(self, keys: np.ndarray) -> np.ndarray:
        """``KEY`` [.]: the lines that go."""
        return later_ones(keys)

    def resolve(self, matched: np.ndarray) -> np.ndarray:
        """``KEY`` [.]: the same, for no line's fate hangs on another's."""
        return matched

    def remove(self, page: Page, parts: np.ndarray, counts: Counter[str]) -> Page | Dropped:
        """The page without those lines, if enough of it is left."""
        lines = page.text.split("\n")
        gone = set(parts.tolist())
        kept = [line for number, line in enumerate(lines) if number not in gone]
        if gone:
            _count(lines, kept, gone, counts)
        if kept:
            counts["line-passed"] += len(kept)
        text = "\n".join(kept)
        if not text:
            return Dropped("filtered:empty")
        if not has_sentences(text, self.min_sentences):
            return Dropped("filtered:too_few_sentences")
        return page._replace(text=text)

    def texts(self, page: Page, parts: np.ndarray) -> list[str]:
        """Those lines."""
        lines = page.text.split("\n")
        return [lines[part].strip() for part in parts.tolist()]


def _count(lines: list[str], kept: list[str], gone: set[int], counts: Counter[str]) -> None:
    """A line that stays elsewhere on its page is a local duplicate, one that stays on another page a global one."""
    here = {line.strip().lower() for line in kept}
    local = sum(lines[number].strip().lower() in here for number in gone)
    if local:
        counts["line-filtered:local_duplicate"] += local
    if local < len(gone):
        counts["line-filtered:global_duplicate"] += len(gone) - local


def _line_digest(line: str) -> bytes:
    return digest(line.strip().lower())
