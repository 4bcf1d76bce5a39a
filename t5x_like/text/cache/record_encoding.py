"""Encoding of examples as bytes: the concatenated features; their lengths are kept in the index."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.fields import Feature


class EncodedRecords(NamedTuple):
    """Encoded examples.

    Attributes:
      records: Bytes of each example.
      lengths: Length of each feature, int64 [examples, features].
    """

    records: list[bytes]
    lengths: np.ndarray


def sort_features(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """Sort features by decreasing item size, so that every array of a record is aligned."""
    return tuple(sorted(features, key=lambda each: (-np.dtype(each.dtype).itemsize, each.name)))


def encode(examples: Sequence[Mapping[str, Any]], features: Sequence[Feature]) -> EncodedRecords:
    """Encode examples.

    Args:
      examples: An array-like for every feature of each example.
      features: The features, in storage order.

    Raises:
      ValueError: A number doesn't fit its feature's type, or an array has another shape.
    """
    records, lengths = [], np.empty((len(examples), len(features)), np.int64)
    for row, example in enumerate(examples):
        arrays = [_as_stored(example[feature.name], feature) for feature in features]
        lengths[row] = [len(array) for array in arrays]
        records.append(b"".join(array.tobytes() for array in arrays))
    return EncodedRecords(records, lengths)


def _as_stored(values: object, feature: Feature) -> np.ndarray:
    dtype = np.dtype(feature.dtype)
    array = np.asarray(values)
    if not array.size:
        return np.zeros((0, feature.width) if feature.width else 0, dtype)
    if array.shape[1:] != ((feature.width,) if feature.width else ()):
        raise ValueError(f"feature {feature.name!r} has the shape {array.shape}, {feature} is expected")
    if dtype.kind in "iu":
        low, high = int(array.min()), int(array.max())
        if low < np.iinfo(dtype).min or high > np.iinfo(dtype).max:
            raise ValueError(
                f"feature {feature.name!r} holds numbers from {low} to {high}, which {dtype} can't; its vocabulary "
                "says that it is smaller"
            )
    return array.astype(dtype, copy=False)


def decode(
    records: Sequence[bytes], lengths: np.ndarray, features: Sequence[Feature]
) -> list[dict[str, np.ndarray]]:
    """Decode records into read-only arrays without copying.

    Args:
      records: Bytes of each example.
      lengths: int64 [records, features].
      features: The features, in storage order.
    """
    if len(features) == 1 and features[0].width is None:
        name, dtype = features[0].name, np.dtype(features[0].dtype)
        return [{name: np.frombuffer(record, dtype)} for record in records]
    examples = []
    types = [
        (feature.name, np.dtype(feature.dtype), feature.width, feature.row_bytes) for feature in features
    ]
    for record, counts in zip(records, lengths.tolist(), strict=True):
        example, offset = {}, 0
        for (name, dtype, width, row_bytes), count in zip(types, counts, strict=True):
            array = np.frombuffer(record, dtype, count * (width or 1), offset)
            example[name] = array.reshape(count, width) if width else array
            offset += count * row_bytes
        examples.append(example)
    return examples


def record_sizes(lengths: np.ndarray, features: Sequence[Feature]) -> np.ndarray:
    """Return the bytes of each record, int64.

    Args:
      lengths: Length of each feature [..., features].
      features: Features in this order.
    """
    return lengths @ np.array([feature.row_bytes for feature in features], np.int64)
