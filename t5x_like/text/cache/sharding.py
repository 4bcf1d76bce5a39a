"""Division of a stream of examples into shards, independent of the number of workers."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from t5x_like.text.cache.record_encoding import EncodedRecords, record_sizes
from t5x_like.text.cache.shards import CacheShard, ShardWriter
from t5x_like.text.fields import Feature


class ShardTake(NamedTuple):
    """The part of the next examples that a shard takes.

    Attributes:
      examples: Number of examples.
      is_full: True if the shard is full then.
    """

    examples: int
    is_full: bool


@dataclass(frozen=True, kw_only=True)
class ShardingBySize:
    """Shards that are full with the example that brings them to ``num_bytes``."""

    num_bytes: int

    def take(self, number: int, writer: ShardWriter, sizes: np.ndarray) -> ShardTake:
        """Return the part of the next examples that a shard takes.

        Args:
          number: Index of the shard.
          writer: Its writer.
          sizes: Bytes of the next examples.
        """
        del number
        reached = np.flatnonzero(writer.num_bytes + np.cumsum(sizes) >= self.num_bytes)
        return ShardTake(int(reached[0]) + 1, True) if len(reached) else ShardTake(len(sizes), False)

    def __str__(self) -> str:
        return f"shards of {self.num_bytes / 2**20:g} MiB"


@dataclass(frozen=True, kw_only=True)
class ShardingByCount:
    """``num_shards`` shards whose numbers of examples differ by at most one."""

    num_examples: int
    num_shards: int

    def take(self, number: int, writer: ShardWriter, sizes: np.ndarray) -> ShardTake:
        """Return the part of the next examples that a shard takes.

        Args:
          number: Index of the shard.
          writer: Its writer.
          sizes: Bytes of the next examples.
        """
        start, end = (each * self.num_examples // self.num_shards for each in (number, number + 1))
        left = end - start - writer.num_examples
        return ShardTake(min(left, len(sizes)), left <= len(sizes))

    def __str__(self) -> str:
        return f"{self.num_shards} shards of equally many examples"


Sharding = ShardingBySize | ShardingByCount


def write_stream(
    stream: Iterable[EncodedRecords],
    directory: str,
    *,
    first: int,
    sharding: Sharding,
    features: Sequence[Feature],
) -> Generator[CacheShard]:
    """Write examples into shards and yield each finished shard.

    Args:
      stream: Encoded examples.
      directory: Folder of the cache.
      first: Number of the first shard.
      sharding: Division into shards.
      features: The features, in storage order.
    """
    number, writer = first, None
    try:
        for encoded in stream:
            rest = encoded
            while rest.records:
                writer = writer or ShardWriter(directory, number, features)
                shard_part = sharding.take(number, writer, record_sizes(rest.lengths, features))
                writer.write(_part(rest, None, shard_part.examples))
                rest = _part(rest, shard_part.examples, None)
                if shard_part.is_full:
                    yield writer.finish()
                    number, writer = number + 1, None
        if writer is not None:
            yield writer.finish()
            writer = None
    finally:
        if writer is not None:
            writer.discard()


def _part(encoded: EncodedRecords, start: int | None, end: int | None) -> EncodedRecords:
    return EncodedRecords(encoded.records[start:end], encoded.lengths[start:end])
