"""Removal of long runs of tokens that occur more than once in the whole corpus."""

import functools
import re
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from t5x_like.corpora.duplicates.duplicate_rule import KEY, PagePosition
from t5x_like.corpora.duplicates.min_hash import ngram_hashes
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, kw_only=True)
class DuplicateSubstrings:
    """Keeps only the first occurrence of each run of ``num_tokens`` tokens in the corpus.

    A token is a word or a mark. Runs overlap, so a repeated passage of any length from ``num_tokens`` on is removed
    as a whole, from all documents but the first. The order is that of the input files. Whitespace may differ. If
    a unit repeats without a gap for more than a run, such as the hyphens of a line, its first occurrence alone stays.

    Lee et al. 2022, §4.1 (ExactSubstr), https://arxiv.org/abs/2107.06499; Penedo et al. 2023, §3.3,
    https://arxiv.org/abs/2306.01116. Both use suffix arrays and subwords of GPT-2, of which a word has one or more.
    Here each run has a hash of 128 bits: 44 bytes for each token of the corpus travel between stages.

    Attributes:
      num_tokens: Tokens in a run.
      min_characters: Fewest characters that must remain in a document from which a run was removed.

    Raises:
      ValueError: A field isn't positive.
    """

    NAME: ClassVar[str] = "dedupe-substrings"
    VERSION: ClassVar[int] = 1
    BY_HASH_ALONE: ClassVar[bool] = True

    num_tokens: int = 50
    min_characters: int = 20

    def __post_init__(self) -> None:
        for name in ("num_tokens", "min_characters"):
            if getattr(self, name) < 1:
                raise ValueError(f"DuplicateSubstrings.{name} is {getattr(self, name)}; give 1 or more")

    def keys(self, page: Page, position: PagePosition) -> np.ndarray:
        """Return ``KEY`` [number of tokens + 1 - ``num_tokens``], or [0] for a shorter document."""
        tokens = _TOKEN.findall(page.text)
        high, low = (ngram_hashes(tokens, self.num_tokens, start) for start in (1, 2))
        keys = np.zeros(len(high), KEY)
        keys["hash_high"], keys["hash_low"] = high, low
        keys["rank_high"], keys["rank_low"] = position.source, position.record
        keys["part"] = np.arange(len(high))
        return keys

    def remove(self, page: Page, parts: np.ndarray, counts: Counter[str]) -> Page | Dropped:
        """Return the document without the removed runs, ``filtered:empty`` or ``filtered:too_few_characters``."""
        if not len(parts):
            return page
        tokens = list(_TOKEN.finditer(page.text))
        pieces, position = [], 0
        for first, last in _merged(parts, self.num_tokens):
            counts["token-filtered:duplicate_substring"] += last - first
            pieces.append(page.text[position : tokens[first].start()])
            position = tokens[last - 1].end()
        text = functools.reduce(_joined, [*pieces, page.text[position:]]).strip()
        if not text:
            return Dropped("filtered:empty")
        return (
            page._replace(text=text)
            if len(text) >= self.min_characters
            else Dropped("filtered:too_few_characters")
        )

    def texts(self, page: Page, parts: np.ndarray) -> list[str]:
        """Return the removed passages."""
        tokens = list(_TOKEN.finditer(page.text))
        return [
            page.text[tokens[first].start() : tokens[last - 1].end()]
            for first, last in _merged(parts, self.num_tokens)
        ]


def _joined(before: str, after: str) -> str:
    """Join the texts around a removed passage, with a space where two words would become one."""
    are_words = before[-1:].isalnum() and after[:1].isalnum()
    return f"{before} {after}" if are_words else before + after


def _merged(parts: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Return the first token and the one after the last of each passage that runs cover."""
    passages: list[tuple[int, int]] = []
    for start in parts.tolist():
        if passages and start <= passages[-1][1]:
            passages[-1] = (passages[-1][0], start + size)
        else:
            passages.append((start, start + size))
    return passages
