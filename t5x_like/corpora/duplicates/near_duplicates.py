"""Removal of near-duplicate pages: copies with another header, a changed date, or a paragraph more or less."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from t5x_like.corpora.duplicates.duplicate_rule import PagePosition, make_keys, rank_from_digest, shared_keys
from t5x_like.corpora.duplicates.min_hash import band_digests, shingles, signature
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped


@dataclass(frozen=True, kw_only=True)
class NearDuplicates:
    """Keeps one page of each group of pages that share most of their word n-grams.

    Two pages match if at least one band of their MinHash signatures is equal. For pages with Jaccard similarity J this
    has probability 1 - (1 - J^rows)^bands (``match_probability``). Groups are the connected components of matching
    pairs; the page with the smallest md5 of its normalized URL stays. The defaults are FineWeb's: pairs with J = 0.75
    are found with probability 0.77, with 0.8 in 92 % of cases, with 0.5 in 5 %.

    Words are runs of letters and digits in lower case. In scripts without spaces between words, an n-gram covers
    several clauses. A page with fewer words than ``ngram`` is one n-gram.

    Broder 1997, "On the resemblance and containment of documents"; Penedo et al. 2024 §3.4,
    https://arxiv.org/abs/2406.17557; GPT-3 used the method too (Brown et al. 2020, appendix A).

    Attributes:
      ngram: Words in an n-gram.
      bands: Bands of a signature.
      rows: Values in a band.
      seed: Seed of the permutations.
    """

    NAME: ClassVar[str] = "dedupe-near"
    VERSION: ClassVar[int] = 1
    BY_HASH_ALONE: ClassVar[bool] = False

    ngram: int = 5
    bands: int = 14
    rows: int = 8
    seed: int = 1

    def __post_init__(self) -> None:
        for name, value in (("ngram", self.ngram), ("bands", self.bands), ("rows", self.rows)):
            if value < 1:
                raise ValueError(f"NearDuplicates.{name} is {value}; it counts something: give 1 or more")

    def match_probability(self, similarity: float) -> float:
        """Return the probability that two pages with this Jaccard similarity match."""
        return 1.0 - (1.0 - similarity**self.rows) ** self.bands

    def keys(self, page: Page, position: PagePosition) -> np.ndarray:
        """Return ``KEY`` [bands], or [0] for a page without words."""
        ngrams = shingles(page.text, self.ngram)
        if not len(ngrams):
            return make_keys((), rank=(0, 0))
        numbers = signature(ngrams, self.bands * self.rows, self.seed)
        return make_keys(band_digests(numbers, self.bands), rank=rank_from_digest(position.url_digest))

    def match(self, keys: np.ndarray) -> np.ndarray:
        """Return ``KEY`` [shared bands]."""
        return shared_keys(keys)[0]

    def resolve(self, matched: np.ndarray) -> np.ndarray:
        """Return one key of part 0 for each removed page. Memory grows with the matches, not with the corpus."""
        matched, first = shared_keys(matched)
        pages, page_of_key = _pages_in_order(matched)
        pairs = np.stack([page_of_key[:-1], page_of_key[1:]])[:, ~first[1:]]
        removed = pages[connected_components(len(pages), pairs) != np.arange(len(pages))]
        removed["part"] = 0
        return removed

    def remove(self, page: Page, parts: np.ndarray, counts: Counter[str]) -> Page | Dropped:  # noqa: ARG002
        """Return the page unchanged, or ``Dropped``."""
        return Dropped("filtered:near_duplicate") if len(parts) else page

    def texts(self, page: Page, parts: np.ndarray) -> list[str]:  # noqa: ARG002
        """Return nothing: near-duplicates differ."""
        return []


def _pages_in_order(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group keys by page.

    Returns:
      ``KEY`` [pages], one key for each page in the order of rank; int64 [keys], the index of each key's page.
    """
    order = np.lexsort([keys[name] for name in ("page", "partition", "rank_low", "rank_high")])
    ordered = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = (ordered["page"][1:] != ordered["page"][:-1]) | (
        ordered["partition"][1:] != ordered["partition"][:-1]
    )
    page_of_key = np.empty(len(keys), np.int64)
    page_of_key[order] = np.cumsum(new) - 1
    return ordered[new], page_of_key


def connected_components(num_nodes: int, pairs: np.ndarray) -> np.ndarray:
    """Return int64 [number]: for each node the lowest node of its connected component.

    Hooks the root of each side of an edge onto the lower one, then shortens all paths, until nothing changes. Long
    chains also take few rounds (Shiloach and Vishkin 1982).

    Args:
      num_nodes: Number of nodes.
      pairs: int64 [2, edges], nodes at both ends of each edge.
    """
    roots = np.arange(num_nodes)
    while True:
        left, right = roots[pairs[0]], roots[pairs[1]]
        if np.array_equal(left, right):
            return roots
        np.minimum.at(roots, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(roots, above := roots[roots]):
            roots = above
