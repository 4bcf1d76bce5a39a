"""Completeness of WAV files, which libsndfile reads without a word when they are cut.

A RIFF file is a list of chunks, each with an identifier of four letters and a size (Microsoft and IBM 1991); RF64 has
64-bit sizes in a chunk of its own (EBU Tech 3306).
"""

import os
import struct
from typing import IO

_WHOLE_FILE = 12  # bytes before the first chunk
_CHUNK_HEAD = 8
# Programs that write to a pipe don't know the size; they write one near the largest, signed or unsigned.
_UNKNOWN_SIZE = 0x7FFF_0000
_RF64_SIZE = 0xFFFF_FFFF


def missing_bytes(stream: IO[bytes]) -> int:
    """Return the number of bytes of samples that a WAV file announces and lacks; 0 for files of other formats.

    The stream is left at its start.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    head = stream.read(_WHOLE_FILE)
    missing = 0
    if head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        missing = _missing_of_chunks(stream, size, is_rf64=head[:4] == b"RF64")
    stream.seek(0)
    return missing


def _missing_of_chunks(stream: IO[bytes], size: int, *, is_rf64: bool) -> int:
    at, long_size = _WHOLE_FILE, 0
    while len(head := _read_at(stream, at, _CHUNK_HEAD)) == _CHUNK_HEAD:
        name, length = struct.unpack("<4sI", head)
        at += _CHUNK_HEAD
        if name == b"ds64" and len(sizes := stream.read(16)) == 16:
            long_size = struct.unpack("<8xQ", sizes)[0]
        if name == b"data":
            if is_rf64 and length == _RF64_SIZE:
                length = long_size
            elif length >= _UNKNOWN_SIZE:
                return 0
            return max(at + length - size, 0)
        at += length + length % 2  # chunks start at even offsets
    return 0


def _read_at(stream: IO[bytes], position: int, length: int) -> bytes:
    stream.seek(position)
    return stream.read(length)
