"""MinHash signatures: the fraction of equal values in two signatures estimates the Jaccard similarity of the n-grams.

Broder 1997, "On the resemblance and containment of documents". All computations are integer arithmetic on fixed
constants and md5. Signatures are therefore the same on every machine and with every version of Python and numpy.
"""

import functools
import hashlib
import re
from collections.abc import Iterator, Sequence

import numpy as np

_WORD = re.compile(r"\w+")
_CHUNK = 2048  # n-grams at a time, so that intermediate results fit into a core's cache


def shingles(text: str, ngram: int) -> np.ndarray:
    """Return uint64 [number of n-grams]: a hash of each n-gram of words, or of all words if there are fewer.

    Args:
      text: The text.
      ngram: Words in an n-gram.
    """
    words = _WORD.findall(text.lower())
    if not words:
        return np.zeros(0, np.uint64)
    size = min(ngram, len(words))
    return ngram_hashes(words, size, start=size)


def ngram_hashes(words: Sequence[str], ngram: int, start: int) -> np.ndarray:
    """Return uint64 [number of words + 1 - ``ngram``]: a hash of each n-gram, none for fewer words.

    Args:
      words: Words of a text.
      ngram: Words in an n-gram.
      start: Value that is mixed in first; two of them give independent hashes.
    """
    hashes = np.fromiter(map(_word_hash, words), np.uint64, len(words))
    count = max(len(words) - ngram + 1, 0)
    mixed = np.full(count, start, np.uint64)
    for offset in range(ngram if count else 0):
        mixed = _mix(mixed + hashes[offset : offset + count])
    return mixed


def signature(ngrams: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Return the MinHash signature uint32 [size]: the minimum of each of ``size`` permutations over all n-grams.

    The permutations are multiplications by an odd number and additions: sufficient, because n-grams are already hashed.

    Args:
      ngrams: uint64 [number of n-grams, at least 1], hashes.
      size: Number of permutations.
      seed: Seed of the permutations.
    """
    factors, shifts = _permutations(size, seed)
    numbers = (ngrams >> np.uint64(32)).astype(np.uint32)
    minimum = np.full(size, np.iinfo(np.uint32).max, np.uint32)
    for start in range(0, len(numbers), _CHUNK):
        permuted = factors[:, None] * numbers[None, start : start + _CHUNK]
        permuted += shifts[:, None]
        np.minimum(minimum, permuted.min(axis=1), out=minimum)
    return minimum


def band_digests(numbers: np.ndarray, bands: int) -> Iterator[bytes]:
    """Yield 16 bytes for each band of a signature; bands of the same number are equal if their digests are.

    Args:
      numbers: uint32 [size], a signature.
      bands: Number of bands; it divides the size.
    """
    for band, rows in enumerate(numbers.astype("<u4").reshape(bands, -1)):
        yield hashlib.md5(band.to_bytes(4, "little") + rows.tobytes(), usedforsecurity=False).digest()


@functools.lru_cache(maxsize=1 << 17)
def _word_hash(word: str) -> int:
    content = word.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.md5(content, usedforsecurity=False).digest()[:8], "little")


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Mix the bits of uint64 numbers one to one: the last steps of SplitMix64.

    Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
    """
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


@functools.cache
def _permutations(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return odd factors and shifts, uint32 [size] each."""
    golden_gamma = np.uint64(0x9E3779B97F4A7C15)
    start = np.uint64(seed % 2**32) << np.uint64(32)
    bits = _mix(start + golden_gamma * np.arange(1, size + 1, dtype=np.uint64))
    return (bits >> np.uint64(32)).astype(np.uint32) | np.uint32(1), bits.astype(np.uint32)
