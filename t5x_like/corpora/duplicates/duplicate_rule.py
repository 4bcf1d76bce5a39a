"""The protocol of rules that remove repeated content, and the keys by which they find it."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped

# One thing that may be elsewhere too. Of equal hashes the one of the lowest rank stays, of those the first part.
# A page is named by its partition and its number there; a part is a line's or a span's number in the page.
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


class PagePlace(NamedTuple):
    """Where a page stands."""

    url_digest: bytes  # 16 bytes, md5 of the normalised URL
    source: int  # number of the input file, in the order of their names
    record: int  # number of the page in it


class DuplicateRule(Protocol):
    """Decides about pages by all others. Frozen dataclasses, with ``NAME`` and ``VERSION`` as a ``PageRule`` has.

    ``BY_HASH_ALONE`` says that of each hash the first stays, whatever becomes of other hashes: then ``match`` and
    ``resolve`` may be asked about any part of the keys, and about what is left of several parts.
    """

    NAME: ClassVar[str]
    VERSION: ClassVar[int]
    BY_HASH_ALONE: ClassVar[bool]

    def keys(self, page: Page, place: PagePlace) -> np.ndarray:
        """``KEY`` [number of parts]: hash, rank and part; ``partition`` and ``page`` are set by the caller."""
        ...

    def match(self, keys: np.ndarray) -> np.ndarray:
        """``KEY`` [.]: what ``resolve`` needs of keys among which are all that share a hash with any of them."""
        ...

    def resolve(self, matched: np.ndarray) -> np.ndarray:
        """``KEY`` [.]: the parts that go, of what ``match`` found in all parts of the corpus, in any order."""
        ...

    def remove(self, page: Page, parts: np.ndarray, counts: Counter[str]) -> Page | Dropped:
        """The page without the ``parts`` (int64, ascending; may be empty) that ``resolve`` named."""
        ...

    def texts(self, page: Page, parts: np.ndarray) -> list[str]:
        """What those parts say, to tell which come most often; none where that tells nothing."""
        ...


_ORDER = ("hash_high", "hash_low", "rank_high", "rank_low", "partition", "page", "part")


def digest(text: str) -> bytes:
    """16 bytes, the md5 of a text. A lone surrogate, which JSON may hold, has a digest like any other character."""
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()


def keys_of(digests: Iterable[bytes], *, rank: tuple[int, int]) -> np.ndarray:
    """``KEY`` [number of digests] of parts 0, 1, 2 … with these hashes (16 bytes each) and one rank."""
    halves = np.frombuffer(b"".join(digests), ">u8").reshape(-1, 2)
    keys = np.zeros(len(halves), KEY)
    keys["hash_high"], keys["hash_low"] = halves[:, 0], halves[:, 1]
    keys["rank_high"], keys["rank_low"] = rank
    keys["part"] = np.arange(len(halves))
    return keys


def rank_of(url_digest: bytes) -> tuple[int, int]:
    """16 bytes as a rank: the order of the numbers is that of the bytes and of their hexadecimal form."""
    return int.from_bytes(url_digest[:8], "big"), int.from_bytes(url_digest[8:], "big")


def shared(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The keys whose hash another one has too, by hash and then as they would stay; and bool, first of its hash."""
    candidates = keys[_repeated(keys["hash_high"])]
    candidates = candidates[np.lexsort([candidates[name] for name in reversed(_ORDER)])]
    first = np.ones(len(candidates), bool)
    first[1:] = ~(
        (candidates["hash_high"][1:] == candidates["hash_high"][:-1])
        & (candidates["hash_low"][1:] == candidates["hash_low"][:-1])
    )
    alone = first & np.append(first[1:], True)
    return candidates[~alone], first[~alone]


def later_ones(keys: np.ndarray) -> np.ndarray:
    """``KEY`` [.]: of each hash all keys but the one that stays: lowest rank, then page, then part."""
    matched, first = shared(keys)
    return matched[~first]


def _repeated(values: np.ndarray) -> np.ndarray:
    """int64 [.]: where the values are that come more than once. Most come once: those are never sorted further."""
    order = np.argsort(values)
    same = values[order[1:]] == values[order[:-1]]
    repeated = np.zeros(len(values), bool)
    repeated[1:] |= same
    repeated[:-1] |= same
    return order[repeated]
