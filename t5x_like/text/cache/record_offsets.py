"""Offsets of records in ArrayRecord files, which map damaged bytes to examples.

ArrayRecord (https://github.com/google/array_record) is based on Riegeli/records files
(https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md). These consist of chunks with a
header of 40 bytes, interrupted by a block header of 24 bytes at every multiple of 64 KiB. With one uncompressed record
in each chunk (``group_size:1,uncompressed``), a record is the end of its chunk.
"""

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

BLOCK = 65536
_BLOCK_HEADER = 24
_CHUNK_HEADER = 40
_RECORDS = ord("r")


class _Header(NamedTuple):
    data_size: int
    kind: int
    num_records: int
    record_size: int


def record_offsets(content: memoryview, sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the start of each record and the end of the last one, int64 [records + 1].

    Args:
      content: The file.
      sizes: Bytes of each record.

    Raises:
      ValueError: The file has another layout.
    """
    offset = _after(_skip_signature(content), 0)
    offsets = np.empty(len(sizes) + 1, np.int64)
    for index, size in enumerate(sizes):
        header = _header(content, offset)
        if (header.kind, header.num_records, header.record_size) != (_RECORDS, 1, size):
            raise ValueError(
                f"record {index} of {size} bytes is not at byte {offset} ({header}); this version of array_record "
                "writes another layout than 0.8 does"
            )
        offsets[index] = offset
        offset = _after(offset, _CHUNK_HEADER + header.data_size)
    offsets[-1] = offset
    return offsets


def read_record(read: Callable[[int, int], bytes], start: int, end: int, size: int) -> bytes:
    """Read one record.

    Args:
      read: ``read(offset, length)`` returns bytes of the file.
      start: Start of the record's chunk.
      end: End of the chunk.
      size: Bytes of the record.
    """
    chunk = _without_block_headers(read(start, end - start), start)
    data_size = int.from_bytes(chunk[8:16], "little")
    stop = _CHUNK_HEADER + data_size
    return chunk[stop - size : stop]


def _skip_signature(content: memoryview) -> int:
    header = _header(content, 0)
    if header.kind != ord("s"):
        raise ValueError("not a Riegeli/records file: it has no signature")
    return _after(0, _CHUNK_HEADER)


def _header(content: memoryview, offset: int) -> _Header:
    raw = _without_block_headers(content[offset : offset + _CHUNK_HEADER + 2 * _BLOCK_HEADER], offset)
    if len(raw) < _CHUNK_HEADER:
        raise ValueError(f"the file ends within the header at byte {offset}")
    _, data_size, _, kind_and_count, record_size = struct.unpack_from("<5Q", raw)
    return _Header(data_size, kind_and_count & 0xFF, kind_and_count >> 8, record_size)


def _without_block_headers(raw: memoryview | bytes, offset: int) -> bytes:
    """Return ``raw``, which starts at offset ``offset`` of a file, without its block headers."""
    first = -offset % BLOCK
    if first >= len(raw):
        return bytes(raw)
    parts = [raw[:first]]
    parts += [raw[start + _BLOCK_HEADER : start + BLOCK] for start in range(first, len(raw), BLOCK)]
    return b"".join(parts)


def _after(offset: int, length: int) -> int:
    """Return the offset ``length`` bytes after ``offset``; block headers don't count."""
    usable = BLOCK - _BLOCK_HEADER
    headers = (length + (offset + usable - 1) % BLOCK) // usable
    return offset + length + headers * _BLOCK_HEADER
