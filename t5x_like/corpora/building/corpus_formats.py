"""Output formats of a corpus: JSON lines, TFRecord and ArrayRecord, written without TensorFlow."""

import contextlib
import json
import struct
from collections.abc import Callable, Iterable, Iterator

import google_crc32c

from t5x_like.corpora.building.atomic_files import disk_full, partial_file
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.io.decompression import import_zstandard

EXTENSIONS = {"jsonl.zst": "jsonl.zst", "tfrecord": "tfrecord", "arrayrecord": "array_record"}
FIELDS = ("url", "timestamp", "text", "language")
_Write = Callable[[Page], object]
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
    with partial_file(path) as partial, _WRITERS[form](partial) as write:
        for page in pages:
            write(page)


def fields_of(page: Page) -> dict[str, str]:
    """Return the stored fields of a page. Lone surrogates, which UTF-8 can't represent, become question marks."""
    values = (page.url, page.timestamp, page.text, page.language or "")
    return {
        name: value.encode("utf-8", "replace").decode() for name, value in zip(FIELDS, values, strict=True)
    }


@contextlib.contextmanager
def _json_lines(path: str) -> Iterator[_Write]:
    compressor = import_zstandard().ZstdCompressor(level=_LEVEL, write_checksum=True)
    with open(path, "wb") as file, compressor.stream_writer(file) as stream:
        yield lambda page: stream.write(_ENCODER.encode(fields_of(page)).encode() + b"\n")


@contextlib.contextmanager
def _tf_record(path: str) -> Iterator[_Write]:
    """See https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details."""

    def write(page: Page) -> None:
        record = example_bytes(fields_of(page))
        size = struct.pack("<Q", len(record))
        stream.write(size + _masked_crc(size) + record + _masked_crc(record))

    with open(path, "wb") as stream:
        yield write


@contextlib.contextmanager
def _array_record(path: str) -> Iterator[_Write]:
    from array_record.python import array_record_module  # pyright: ignore[reportAttributeAccessIssue]

    def check(function: Callable[..., object], *arguments: object) -> None:
        try:
            function(*arguments)
        except RuntimeError as error:  # the library's only error for a disk that refuses to write
            raise disk_full(path, OSError(0, str(error).split("\n")[0])) from error

    writer = array_record_module.ArrayRecordWriter(path, _ARRAY_RECORD_OPTIONS)
    try:
        yield lambda page: check(writer.write, example_bytes(fields_of(page)))
    finally:
        check(writer.close)


_WRITERS = {"jsonl.zst": _json_lines, "tfrecord": _tf_record, "arrayrecord": _array_record}


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
