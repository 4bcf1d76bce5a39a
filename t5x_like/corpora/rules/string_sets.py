"""Sets of tens of millions of strings in little memory, and the files that list them."""

import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator

import numpy as np

from t5x_like.io.files import as_path


class HashSet:
    """A set of strings that remembers 64 bits of each, 8 bytes in memory: 23 million addresses are 180 MB.

    A string that was never put in is taken for one with a probability of size / 2^64, 10^-12 in such a set.
    """

    def __init__(self, members: Iterable[str]) -> None:
        self._hashes = np.unique(np.fromiter(map(hash_64, members), np.uint64))

    def __contains__(self, member: str) -> bool:
        wanted = np.uint64(hash_64(member))
        place = int(np.searchsorted(self._hashes, wanted))
        return place < len(self._hashes) and bool(self._hashes[place] == wanted)

    def __len__(self) -> int:
        return len(self._hashes)

    def fingerprint(self) -> str:
        """16 hexadecimal digits that tell sets apart, whatever the order they were made in."""
        return hashlib.sha256(self._hashes.astype("<u8").tobytes()).hexdigest()[:16]


def hash_64(text: str) -> int:
    """64 bits of ``text``, the same on every machine."""
    content = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def read_lines(file: str) -> Iterator[str]:
    """The lines of a UTF-8 file (``.gz``: unpacked) without white space at their ends, blank ones left out.

    Raises:
      ValueError: the file is cut, damaged, unreadable or not UTF-8.
    """
    try:
        with as_path(file).open("rb") as raw, gzip.open(raw) if file.endswith(".gz") else raw as lines:
            for line in lines:
                text = line.decode("utf-8-sig").strip()
                if text:
                    yield text
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{file} can't be read to its end: {error}") from error
