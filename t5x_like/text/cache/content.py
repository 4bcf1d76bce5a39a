"""A checksum of a split's tokens that is the same in memory and in a cache with any shards."""

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.cache.record_encoding import EncodedRecords
from t5x_like.text.fields import Feature

_MODULUS = 2**61 - 1  # prime
_BASE = 0x43F6A8885A308D3  # digits of pi


class ContentChecksum(NamedTuple):
    """A polynomial whose coefficients are the crc32 of sequences in order, evaluated at one point.

    The checksum of a concatenation follows from the checksums of its parts (Karp and Rabin 1987,
    https://doi.org/10.1147/rd.312.0249), so shards can be written independently.

    Attributes:
      value: The value of the polynomial.
      num_sequences: Number of sequences.
    """

    value: int = 0
    num_sequences: int = 0

    def followed_by(self, other: "ContentChecksum") -> "ContentChecksum":
        """Return the checksum of the concatenation of both."""
        before = self.value * pow(_BASE, other.num_sequences, _MODULUS)
        return ContentChecksum((before + other.value) % _MODULUS, self.num_sequences + other.num_sequences)


def content_checksum(sequences: Iterable[Any]) -> ContentChecksum:
    """Return the checksum of sequences, given as bytes or flat arrays of the types that a cache stores.

    For examples with several features, pass the features of each example sorted by name.
    """
    value = num_sequences = 0
    for num_sequences, sequence in enumerate(sequences, start=1):  # noqa: B007 - how many there were
        # Plus 1, because an empty sequence has the checksum 0 and must count.
        value = (value * _BASE + zlib.crc32(sequence) + 1) % _MODULUS
    return ContentChecksum(value, num_sequences)


def records_checksum(encoded: EncodedRecords, features: tuple[Feature, ...]) -> ContentChecksum:
    """Return the checksum of encoded examples.

    Args:
      encoded: The examples.
      features: Their features, in storage order.
    """
    if len(features) == 1:
        return content_checksum(encoded.records)
    sizes = encoded.lengths * np.array([feature.row_bytes for feature in features])
    by_name = sorted(range(len(features)), key=lambda column: features[column].name)
    ends = np.cumsum(sizes, axis=1)[:, by_name]
    starts = ends - sizes[:, by_name]
    return content_checksum(
        record[start:end]
        for record, begins, stops in zip(encoded.records, starts.tolist(), ends.tolist(), strict=True)
        for start, end in zip(begins, stops, strict=True)
    )
