"""Memory-efficient sets of tens of millions of strings, and the files that list them."""

import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator

import numpy as np

from t5x_like.io.files import as_path


class HashSet:
    """A set of strings that stores 64 bits of each: 23 million URLs need 180 MB.

    A string that isn't in the set is reported as a member with probability size / 2^64, 10^-12 for such a set.
    """

    def __init__(self, members: Iterable[str]) -> None:
        self._hashes = np.unique(np.fromiter(map(hash_64, members), np.uint64))

    def __contains__(self, member: str) -> bool:
        wanted = np.uint64(hash_64(member))
        index = int(np.searchsorted(self._hashes, wanted))
        return index < len(self._hashes) and bool(self._hashes[index] == wanted)

    def __len__(self) -> int:
        return len(self._hashes)

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the set, independent of the order of its members."""
        return hashlib.sha256(self._hashes.astype("<u8").tobytes()).hexdigest()[:16]


def hash_64(text: str) -> int:
    """Return a 64-bit hash of ``text``, the same on every machine."""
    content = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def read_lines(file: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 file (``.gz`` is decompressed), stripped, without blank ones.

    Raises:
      ValueError: The file is truncated, damaged, unreadable or not UTF-8.
    """
    try:
        with as_path(file).open("rb") as raw, gzip.open(raw) if file.endswith(".gz") else raw as lines:
            for line in lines:
                text = line.decode("utf-8-sig").strip()
                if text:
                    yield text
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{file} can't be read to its end: {error}") from error
