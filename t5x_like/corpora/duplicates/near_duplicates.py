"""Pages that say nearly the same: copies with another header, a changed date, a paragraph more or less."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from t5x_like.corpora.duplicates.duplicate_rule import PagePlace, keys_of, rank_of, shared
from t5x_like.corpora.duplicates.min_hash import band_digests, shingles, signature
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped


@dataclass(frozen=True, kw_only=True)
class NearDuplicates:
    """Keeps one page of each group of pages that share most of their word n-grams.

    Two pages match where at least one band of rows of their MinHash signatures is equal, which happens with
    probability 1 - (1 - J^rows)^bands if J is the share of common n-grams (``match_probability``); all that hang
    together by such pairs are a group, and its page of the smallest md5 of the normalised address stays. The defaults
    are FineWeb's: pairs of J = 0.75 are found in three cases of four, of 0.8 in 92 %, of 0.5 in 5 %. Words are runs of
    letters and digits in lower case, so in scripts that don't separate words an n-gram is some clauses long; a page of
    fewer words is one n-gram.

    Broder 1997, "On the resemblance and containment of documents"; Penedo et al. 2024 §3.4,
    https://arxiv.org/abs/2406.17557; GPT-3 removed near copies so too (Brown et al. 2020, appendix A).
    """

    NAME: ClassVar[str] = "dedupe-near"
    VERSION: ClassVar[int] = 1  # rises with any change of min_hash.py: its numbers decide which pages match
    BY_HASH_ALONE: ClassVar[bool] = False

    ngram: int = 5  # words
    bands: int = 14
    rows: int = 8
    seed: int = 1

    def __post_init__(self) -> None:
        for name, value in (("ngram", self.ngram), ("bands", self.bands), ("rows", self.rows)):
            if value < 1:
                raise ValueError(f"NearDuplicates.{name} is {value}; it counts something: give 1 or more")

    def match_probability(self, similarity: float) -> float:
        """How likely two pages match that share this part of their n-grams (Jaccard similarity)."""
        return 1.0 - (1.0 - similarity**self.rows) ** self.bands

    def keys(self, page: Page, place: PagePlace) -> np.ndarray:
        """``KEY`` [bands], or [0] if the page has no word."""
        ngrams = shingles(page.text, self.ngram)
        if not len(ngrams):
            return keys_of((), rank=(0, 0))
        numbers = signature(ngrams, self.bands * self.rows, self.seed)
        return keys_of(band_digests(numbers, self.bands), rank=rank_of(place.url_digest))

    def match(self, keys: np.ndarray) -> np.ndarray:
        """``KEY`` [.]: all bands that another page has too."""
        return shared(keys)[0]

    def resolve(self, matched: np.ndarray) -> np.ndarray:
        """``KEY`` [.]: one key of part 0 for each page that goes. Needs memory for the matches, not the corpus."""
        matched, first = shared(matched)
        pages, page_of_key = _pages_in_order(matched)
        pairs = np.stack([page_of_key[:-1], page_of_key[1:]])[:, ~first[1:]]
        gone = pages[first_of_group(len(pages), pairs) != np.arange(len(pages))]
        gone["part"] = 0
        return gone

    def remove(self, page: Page, parts: np.ndarray, counts: Counter[str]) -> Page | Dropped:  # noqa: ARG002
        """The page as it is, or nothing of it."""
        return Dropped("filtered:near_duplicate") if len(parts) else page

    def texts(self, page: Page, parts: np.ndarray) -> list[str]:  # noqa: ARG002
        """None: near copies differ."""
        return []


def _pages_in_order(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One key of each page, by rank, and int64 [number of keys]: the number of each key's page among them."""
    order = np.lexsort([keys[name] for name in ("page", "partition", "rank_low", "rank_high")])
    ordered = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = (ordered["page"][1:] != ordered["page"][:-1]) | (
        ordered["partition"][1:] != ordered["partition"][:-1]
    )
    page_of_key = np.empty(len(keys), np.int64)
    page_of_key[order] = np.cumsum(new) - 1
    return ordered[new], page_of_key


def first_of_group(number: int, pairs: np.ndarray) -> np.ndarray:
    """int64 [number]: for each of 0, 1, 2 … the lowest that hangs together with it by ``pairs`` (int64 [2, .]).

    Hooks the root of each side of a pair onto the lower one, then shortens all paths, until nothing changes:
    a few rounds, however long the chains are (Shiloach and Vishkin 1982).
    """
    roots = np.arange(number)
    while True:
        left, right = roots[pairs[0]], roots[pairs[1]]
        if np.array_equal(left, right):
            return roots
        np.minimum.at(roots, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(roots, above := roots[roots]):
            roots = above
