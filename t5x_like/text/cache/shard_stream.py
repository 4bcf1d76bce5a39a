"""Examples in a row, cut into shards by rules that don't depend on how the work was shared out."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from t5x_like.text.cache.record_encoding import EncodedRecords, Feature, record_sizes
from t5x_like.text.cache.shards import CacheShard, ShardWriter


class ShardShare(NamedTuple):
    """How many of the next examples a shard takes, and whether it is full then."""

    examples: int
    is_full: bool


@dataclass(frozen=True, kw_only=True)
class ShardsBySize:
    """A shard is full with the example that brings it to ``num_bytes``."""

    num_bytes: int

    def take(self, number: int, writer: ShardWriter, sizes: np.ndarray) -> ShardShare:
        """What the ``number``-th shard takes of examples of these sizes."""
        del number
        reached = np.flatnonzero(writer.num_bytes + np.cumsum(sizes) >= self.num_bytes)
        return ShardShare(int(reached[0]) + 1, True) if len(reached) else ShardShare(len(sizes), False)

    def __str__(self) -> str:
        return f"shards of {self.num_bytes / 2**20:g} MiB"


@dataclass(frozen=True, kw_only=True)
class ShardsByCount:
    """``num_examples`` in ``num_shards``, whose counts differ by one at most."""

    num_examples: int
    num_shards: int

    def take(self, number: int, writer: ShardWriter, sizes: np.ndarray) -> ShardShare:
        """What the ``number``-th shard takes of examples of these sizes."""
        start, end = (each * self.num_examples // self.num_shards for each in (number, number + 1))
        left = end - start - writer.num_examples
        return ShardShare(min(left, len(sizes)), left <= len(sizes))

    def __str__(self) -> str:
        return f"{self.num_shards} shards of equally many examples"


Cut = ShardsBySize | ShardsByCount


def write_stream(
    stream: Iterable[EncodedRecords], directory: str, *, first: int, cut: Cut, features: Sequence[Feature]
) -> Generator[CacheShard]:
    """Writes examples into shards from the ``first`` on, and tells of each that is finished."""
    number, writer = first, None
    try:
        for encoded in stream:
            rest = encoded
            while rest.records:
                writer = writer or ShardWriter(directory, number, features)
                taken = cut.take(number, writer, record_sizes(rest.lengths, features))
                writer.write(_part(rest, None, taken.examples))
                rest = _part(rest, taken.examples, None)
                if taken.is_full:
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
