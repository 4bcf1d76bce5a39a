"""The protocol of rules that remove repeated content, and the keys that they compare."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped

# Key of one part of a page. Of equal hashes the part with the lowest rank stays, of equal ranks the first part.
# ``page`` is the number of the page in its partition, ``part`` the number of the line or span in the page.
KEY = np.dtype(
    [
        ("hash_high", "<u8"),
        ("hash_low", "<u8"),
        ("rank_high", "<u8"),
        ("rank_low", "<u8"),
        ("partition", "<u4"),
        ("page", "<u4"),
        ("part", "<u4"),
    ]
)


class PagePosition(NamedTuple):
    """Position of a page in the input.

    Attributes:
      url_digest: MD5 digest of the normalized URL, 16 bytes.
      source: Number of the input file, in the order of file names.
      record: Number of the page in the file.
    """

    url_digest: bytes
    source: int
    record: int


class DuplicateRule(Protocol):
    """Removes content that other pages have too. Rules are frozen dataclasses.

    Attributes:
      NAME: Name in manifests and reports.
      VERSION: Increases when the same fields mean something else.
      BY_HASH_ALONE: True if the first part of each hash stays, independently of other hashes. False if pages with a
        common hash belong to one group, also by way of other pages; of all pages but the group's first, part 0 is
        removed.
    """

    NAME: ClassVar[str]
    VERSION: ClassVar[int]
    BY_HASH_ALONE: ClassVar[bool]

    def keys(self, page: Page, position: PagePosition) -> np.ndarray:
        """Return one key for each part of a page that may occur elsewhere.

        Args:
          page: The page.
          position: Its position in the input.

        Returns:
          ``KEY`` [number of parts] with hash, rank and part; the caller sets ``partition`` and ``page``.
        """
        ...

    def remove(self, page: Page, parts: np.ndarray, counts: Counter[str]) -> Page | Dropped:
        """Return the page without some of its parts, or a ``Dropped`` page.

        Args:
          page: The page.
          parts: int64, ascending, may be empty: the parts that are removed.
          counts: Receives counts inside the page.
        """
        ...

    def texts(self, page: Page, parts: np.ndarray) -> list[str]:
        """Return the texts of removed parts, for a list of the most frequent ones.

        Args:
          page: The page before the removal.
          parts: int64, the removed parts.

        Returns:
          Texts; none if they aren't informative.
        """
        ...


_ORDER = ("hash_high", "hash_low", "rank_high", "rank_low", "partition", "page", "part")


def digest(text: str) -> bytes:
    """Return the md5 of a text, 16 bytes. Lone surrogates, which JSON can contain, are hashed like other characters."""
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()


def make_keys(digests: Iterable[bytes], *, rank: tuple[int, int]) -> np.ndarray:
    """Return ``KEY`` [number of digests], numbered as parts 0, 1, 2 ….

    Args:
      digests: One hash of 16 bytes for each part.
      rank: Rank of all parts; of equal hashes the lowest rank stays.
    """
    halves = np.frombuffer(b"".join(digests), ">u8").reshape(-1, 2)
    keys = np.zeros(len(halves), KEY)
    keys["hash_high"], keys["hash_low"] = halves[:, 0], halves[:, 1]
    keys["rank_high"], keys["rank_low"] = rank
    keys["part"] = np.arange(len(halves))
    return keys


def rank_from_digest(url_digest: bytes) -> tuple[int, int]:
    """Return 16 bytes as a rank that sorts like the bytes and like their hexadecimal form."""
    return int.from_bytes(url_digest[:8], "big"), int.from_bytes(url_digest[8:], "big")


def shared_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys whose hash occurs more than once.

    Returns:
      ``KEY`` [shared], sorted by hash and then by rank, page and part; bool [shared], True for the first of each hash.
    """
    candidates = keys[_repeated(keys["hash_high"])]
    candidates = candidates[np.lexsort([candidates[name] for name in reversed(_ORDER)])]
    first = np.ones(len(candidates), bool)
    first[1:] = ~(
        (candidates["hash_high"][1:] == candidates["hash_high"][:-1])
        & (candidates["hash_low"][1:] == candidates["hash_low"][:-1])
    )
    alone = first & np.append(first[1:], True)
    return candidates[~alone], first[~alone]


def all_but_first(keys: np.ndarray) -> np.ndarray:
    """Return ``KEY`` [removed]: for each hash all keys except the one with the lowest rank, page and part."""
    matched, first = shared_keys(keys)
    return matched[~first]


def _repeated(values: np.ndarray) -> np.ndarray:
    """Return int64 indices of values that occur more than once, without sorting the unique majority further."""
    order = np.argsort(values)
    same = values[order[1:]] == values[order[:-1]]
    repeated = np.zeros(len(values), bool)
    repeated[1:] |= same
    repeated[:-1] |= same
    return order[repeated]
