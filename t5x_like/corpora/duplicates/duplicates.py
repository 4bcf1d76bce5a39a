"""What removes things that come more than once: keys drawn from each page, and which of those with equal keys go."""

from collections import Counter
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from t5x_like.corpora.pages.page import Page
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


class Place(NamedTuple):
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

    def keys(self, page: Page, place: Place) -> np.ndarray:
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
