"""One number for the tokens of a split, the same in memory and in a cache, however that is cut into shards."""

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.cache.record_encoding import EncodedRecords, Feature

_MODULUS = 2**61 - 1  # a prime
_BASE = 0x43F6A8885A308D3  # digits of pi: nothing up the sleeve


class ContentChecksum(NamedTuple):
    """Sequences in their order: their crc32 as the coefficients of a polynomial, taken at one place.

    Of two stretches the number of both together is known without reading them again (Karp and Rabin 1987,
    https://doi.org/10.1147/rd.312.0249), so that shards can be written apart.
    """

    value: int = 0
    num_sequences: int = 0

    def followed_by(self, other: "ContentChecksum") -> "ContentChecksum":
        """That of both, one after the other."""
        before = self.value * pow(_BASE, other.num_sequences, _MODULUS)
        return ContentChecksum((before + other.value) % _MODULUS, self.num_sequences + other.num_sequences)


def content_of(sequences: Iterable[Any]) -> ContentChecksum:
    """That of some sequences, as bytes or flat arrays of the types that a cache has for them.

    Of examples with several features give each example's, sorted by name.
    """
    value = number = 0
    for number, sequence in enumerate(sequences, start=1):  # noqa: B007 - how many there were
        # 1 more, for an empty sequence has the checksum 0, and that it is there counts.
        value = (value * _BASE + zlib.crc32(sequence) + 1) % _MODULUS
    return ContentChecksum(value, number)


def content_of_records(encoded: EncodedRecords, features: tuple[Feature, ...]) -> ContentChecksum:
    """That of examples as they are written."""
    if len(features) == 1:
        return content_of(encoded.records)
    sizes = encoded.lengths * np.array([feature.row_bytes for feature in features])
    by_name = sorted(range(len(features)), key=lambda column: features[column].name)
    ends = np.cumsum(sizes, axis=1)[:, by_name]
    starts = ends - sizes[:, by_name]
    return content_of(
        record[start:end]
        for record, begins, stops in zip(encoded.records, starts.tolist(), ends.tolist(), strict=True)
        for start, end in zip(begins, stops, strict=True)
    )
