"""Keys made, and those that share a hash found, in numpy alone: a corpus has billions of them."""

import hashlib
from collections.abc import Iterable

import numpy as np

from t5x_like.corpora.duplicates.duplicates import KEY

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
