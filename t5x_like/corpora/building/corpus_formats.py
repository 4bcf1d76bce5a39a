"""Output formats of a corpus: JSON lines, TFRecord and ArrayRecord, written without TensorFlow."""

import json
import struct
from collections.abc import Iterable
from typing import Any

import google_crc32c

from t5x_like.corpora.building.atomic_files import disk_full, partial_file
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.io.decompression import import_zstandard

EXTENSIONS = {"jsonl.zst": "jsonl.zst", "tfrecord": "tfrecord", "arrayrecord": "array_record"}
FIELDS = ("url", "timestamp", "text", "language")
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_LEVEL = 3  # zstd's default
_ARRAY_RECORD_OPTIONS = "group_size:64,zstd:3"


def write_pages(pages: Iterable[Page], path: str, form: str) -> None:
    """Write one file of the corpus atomically; no pages make a valid empty file.

    Args:
      pages: Pages in order.
      path: A local or bucket path.
      form: A key of ``EXTENSIONS``.

    Raises:
      ValueError: The disk is full.
    """
    with partial_file(path) as partial:
        writer = {"jsonl.zst": _JsonLines, "tfrecord": _TfRecord, "arrayrecord": _ArrayRecord}[form](partial)
        try:
            for page in pages:
                writer.write(page)
        finally:
            writer.close()


def fields_of(page: Page) -> dict[str, str]:
    """Return the stored fields of a page. Lone surrogates, which UTF-8 can't represent, become question marks."""
    values = (page.url, page.timestamp, page.text, page.language or "")
    return {
        name: value.encode("utf-8", "replace").decode() for name, value in zip(FIELDS, values, strict=True)
    }


class _JsonLines:
    def __init__(self, path: str) -> None:
        self._file = open(path, "wb")  # noqa: SIM115  closed by close()
        self._stream: Any = (
            import_zstandard().ZstdCompressor(level=_LEVEL, write_checksum=True).stream_writer(self._file)
        )

    def write(self, page: Page) -> None:
        self._stream.write(_ENCODER.encode(fields_of(page)).encode() + b"\n")

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._file.close()


class _TfRecord:
    """See https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details."""

    def __init__(self, path: str) -> None:
        self._stream = open(path, "wb")  # noqa: SIM115  closed by close()

    def write(self, page: Page) -> None:
        record = example_bytes(fields_of(page))
        size = struct.pack("<Q", len(record))
        self._stream.write(size + _masked_crc(size) + record + _masked_crc(record))

    def close(self) -> None:
        self._stream.close()


class _ArrayRecord:
    def __init__(self, path: str) -> None:
        from array_record.python import array_record_module  # pyright: ignore[reportAttributeAccessIssue]

        self._path = path
        self._writer = array_record_module.ArrayRecordWriter(path, _ARRAY_RECORD_OPTIONS)

    def write(self, page: Page) -> None:
        self._do(self._writer.write, example_bytes(fields_of(page)))

    def close(self) -> None:
        self._do(self._writer.close)

    def _do(self, function: Any, *arguments: Any) -> None:
        try:
            function(*arguments)
        except RuntimeError as error:  # the library's only error for a disk that refuses to write
            raise disk_full(self._path, OSError(0, str(error).split("\n")[0])) from error


def _masked_crc(data: bytes) -> bytes:
    checksum = google_crc32c.value(data)
    return struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def example_bytes(fields: dict[str, str]) -> bytes:
    """Return a serialized ``tf.train.Example`` with one string for each feature."""
    features = b""
    for name, value in sorted(fields.items()):
        feature = _field(1, _field(1, value.encode()))  # Feature.bytes_list, BytesList.value
        features += _field(1, _field(1, name.encode()) + _field(2, feature))  # an entry of Features.feature
    return _field(1, features)


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field: https://protobuf.dev/programming-guides/encoding/."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
