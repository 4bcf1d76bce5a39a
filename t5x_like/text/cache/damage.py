"""Detection of damaged bytes in a cache, and of the examples that they affect."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, NoReturn

import numpy as np

from t5x_like.io.progress import Progress
from t5x_like.text.cache.cache_manifest import REPAIR, Manifest, read_checked
from t5x_like.text.cache.record_offsets import BLOCK
from t5x_like.text.cache.shards import CacheShard, Index, checksums_of_file, index_name, parse_index

_POLICY = "or open it with on_corruption='quarantine' to leave out what is damaged"


def check_sizes(directory: str, manifest: Manifest) -> None:
    """Check that all shards exist and have their original size.

    Args:
      directory: Folder of the cache.
      manifest: Its manifest.

    Raises:
      ValueError: A shard doesn't; the message names it.
    """
    for shard in manifest.shards:
        path = os.path.join(directory, shard.file)
        if not os.path.exists(path):
            raise ValueError(f"{path} is missing, and {shard.examples} examples with it; {REPAIR}, {_POLICY}")
        size = os.path.getsize(path)
        if size != shard.bytes:
            first = min(size, shard.bytes)
            raise ValueError(
                f"{path} is damaged at byte {first}: it has {size} bytes instead of {shard.bytes}; {REPAIR}, {_POLICY}"
            )


def raise_damage(directory: str, shard: CacheShard, problem: str) -> NoReturn:
    """Report the damaged bytes of a shard.

    Args:
      directory: Folder of the cache.
      shard: The shard.
      problem: The error that led here, for the message.

    Raises:
      ValueError: Always.
    """
    path = os.path.join(directory, shard.file)
    if not os.path.exists(path):
        raise ValueError(f"{path} is missing; {REPAIR}, {_POLICY}")
    index = parse_index(read_checked(directory, index_name(shard.file), shard.index_checksum))
    blocks = np.flatnonzero(_damaged_blocks(path, index)) * BLOCK
    if not len(blocks):
        raise ValueError(f"{path} could not be read ({problem}), though every byte is as it was written")
    more = f", and {len(blocks) - 1} more such blocks" if len(blocks) > 1 else ""
    raise ValueError(
        f"{path} is damaged between bytes {blocks[0]} and {blocks[0] + BLOCK}{more} (their crc32c differs; {problem}); "
        f"{REPAIR}, {_POLICY}"
    )


class Damage(NamedTuple):
    """Damage of a cache's shards.

    Attributes:
      is_any: True if any byte is damaged, even one that belongs to no example.
      examples: int64, sorted: numbers of the examples with damaged bytes.
    """

    is_any: bool
    examples: np.ndarray


def find_damage(directory: str, manifest: Manifest) -> Damage:
    """Read and check every byte of a cache.

    Args:
      directory: Folder of the cache.
      manifest: Its manifest.

    Raises:
      ValueError: An index is damaged, without which the positions of examples are unknown.
    """
    first = np.cumsum([0, *(shard.examples for shard in manifest.shards)])
    with (
        ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool,
        Progress(f"checking {directory}", len(manifest.shards), "shards") as progress,
    ):
        is_any, lost = False, [np.zeros(0, np.int64)]
        for index, damage in enumerate(pool.map(lambda shard: _in_shard(directory, shard), manifest.shards)):
            is_any |= damage.is_any
            lost.append(damage.examples + first[index])
            progress.add(1)
    return Damage(is_any, np.concatenate(lost))


def _in_shard(directory: str, shard: CacheShard) -> Damage:
    """Check one shard; examples are numbered from its first."""
    path = os.path.join(directory, shard.file)
    index = parse_index(read_checked(directory, index_name(shard.file), shard.index_checksum))
    if not os.path.exists(path):
        return Damage(True, np.arange(shard.examples))
    damaged = _damaged_blocks(path, index)
    before = np.concatenate([[0], np.cumsum(damaged)])
    starts, ends = index.offsets[:-1] // BLOCK, -(-index.offsets[1:] // BLOCK)
    return Damage(bool(damaged.any()), np.flatnonzero(before[ends] > before[starts]))


def _damaged_blocks(path: str, index: Index) -> np.ndarray:
    """Return bool [blocks] of the file as it was written."""
    _, actual = checksums_of_file(path)
    expected = index.block_checksums
    damaged = np.ones(len(expected), bool)
    common = min(len(actual), len(expected))
    damaged[:common] = actual[:common] != expected[:common]
    return damaged
