"""Rows of TFRecord and ArrayRecord files of ``tf.train.Example`` with text features, read without TensorFlow."""

import struct
from collections.abc import Iterator

import google_crc32c

from t5x_like.io.files import as_path

_MAX_RECORD = 2**31  # limit of a protocol buffer
_AT_ONCE = 256


def read_examples(file: str, format: str) -> Iterator[dict[str, str]]:
    """Yield the examples of one file in order.

    Args:
      file: Path.
      format: "tfrecord" or "array_record".

    Raises:
      ValueError: The file is damaged, or its records are something else. The message names neither file nor record.
    """
    for record in _tfrecord(file) if format == "tfrecord" else _array_record(file):
        try:
            yield texts_of(record)
        except (IndexError, UnicodeDecodeError) as error:
            raise ValueError(f"not a tf.train.Example of UTF-8 texts: {error}") from None


def _tfrecord(file: str) -> Iterator[bytes]:
    """Yield records (https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details)."""
    with as_path(file).open("rb") as stream:
        while head := stream.read(12):
            if len(head) < 12 or _masked(head[:8]) != head[8:]:
                raise ValueError("damaged: the checksum of a record's length is wrong, or it is cut short")
            (size,) = struct.unpack("<Q", head[:8])
            record = stream.read(size) if size <= _MAX_RECORD else b""
            if len(record) < size or _masked(record) != stream.read(4):
                raise ValueError("damaged: a record's checksum is wrong, or it is cut short")
            yield record


def _masked(content: bytes) -> bytes:
    checksum = google_crc32c.value(content)
    return struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _array_record(file: str) -> Iterator[bytes]:
    from array_record.python import array_record_module  # pyright: ignore[reportAttributeAccessIssue]

    if "://" in file:
        raise ValueError("ArrayRecord files are read from local folders alone; build the corpus as jsonl.zst")
    try:
        reader = array_record_module.ArrayRecordReader(file)
        if not reader.ok():  # it has no records then
            raise ValueError("damaged: the ArrayRecord file is cut short or something else")
        num_records = reader.num_records()
        for start in range(0, num_records, _AT_ONCE):
            yield from reader.read(start, min(start + _AT_ONCE, num_records))
    except (RuntimeError, IndexError) as error:
        raise ValueError(f"damaged: {str(error).splitlines()[0][:200]}") from None


def texts_of(example: bytes) -> dict[str, str]:
    """Return the first text of each feature of a serialized ``tf.train.Example``.

    Raises:
      ValueError: A feature is no text.
      IndexError: The message is truncated.
    """
    texts = {}
    for features in _fields(example, 1):
        for entry in _fields(features, 1):
            name = _fields(entry, 1)[0]
            values = [
                text
                for feature in _fields(entry, 2)
                for kind in _fields(feature, 1)
                for text in _fields(kind, 1)
            ]
            if not values:
                raise ValueError(f"feature {name.decode()!r} holds no text")
            texts[name.decode()] = values[0].decode()
    return texts


def _fields(message: bytes, wanted: int) -> list[bytes]:
    """Return the values of one length-delimited field (https://protobuf.dev/programming-guides/encoding/)."""
    values, at = [], 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 != 2:
            raise ValueError("a field that is no text, bytes or message")
        size, at = _varint(message, at)
        if at + size > len(message):
            raise IndexError("cut short")
        if key >> 3 == wanted:
            values.append(message[at : at + size])
        at += size
    return values


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
