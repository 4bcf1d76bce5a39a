"""One shard of a cache: an ArrayRecord file, and an index of the offsets and lengths of its examples.

The index is written last; a shard without one is unfinished. Both files are written atomically.
"""

import contextlib
import errno
import io
import os
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from t5x_like.io.files import PathLike, as_path, write_bytes
from t5x_like.text.cache.content import ContentChecksum, records_checksum
from t5x_like.text.cache.record_encoding import EncodedRecords, record_sizes
from t5x_like.text.cache.record_offsets import BLOCK, record_offsets
from t5x_like.text.fields import Feature

# One record in a chunk: random access reads no more than it needs. Uncompressed: the bytes don't depend on a
# compressor's version, and records are found without the file's own index; two-byte tokens hardly compress.
OPTIONS = "group_size:1,uncompressed"

# numpy parses an array's header by ast.literal_eval, which CPython 3.11 and 3.12 may fail with a SystemError when
# several threads call it at once (https://github.com/python/cpython/issues/106905).
_NUMPY_HEADERS = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class CacheShard:
    """A finished shard as the manifest describes it. Checksums are crc32c.

    Attributes:
      file: Name of the ArrayRecord file.
      examples: Number of examples.
      bytes: Size of the file.
      checksum: Checksum of the file's block checksums.
      index_checksum: Checksum of the index.
      num_skipped: Rows of the source that could not be used.
      content: Value of the examples' ``ContentChecksum``; None if an earlier version wrote the shard.
    """

    file: str
    examples: int
    bytes: int
    checksum: str
    index_checksum: str
    num_skipped: int = 0
    content: int | None = None


@dataclass(frozen=True, kw_only=True)
class Index:
    """The index of a shard.

    Attributes:
      offsets: int64 [examples + 1], start of each record in the file.
      lengths: int64 [examples, features].
      block_checksums: uint32 [blocks of 64 KiB].
      num_skipped: Rows of the source that could not be used.
      content: See ``CacheShard``.
    """

    offsets: np.ndarray
    lengths: np.ndarray
    block_checksums: np.ndarray
    num_skipped: int = 0
    content: int | None = None


def index_name(file: str) -> str:
    """Return the name of a shard's index."""
    return file.removesuffix(".array_record") + ".index.npz"


def shard_name(number: int) -> str:
    """Return the name of a shard's file."""
    return f"{number:05d}.array_record"


class ShardWriter:
    """Writes one shard, as a context manager; an error discards it."""

    def __init__(self, directory: str, number: int, features: Sequence[Feature]) -> None:
        """Open the file.

        Args:
          directory: Folder of the cache.
          number: Number of the shard.
          features: The features, in storage order.
        """
        from array_record.python import array_record_module  # pyright: ignore[reportAttributeAccessIssue]

        self._directory, self._features = as_path(directory), tuple(features)
        self._name = shard_name(number)
        self._is_remote = "://" in directory  # array_record itself writes local files only
        folder = tempfile.gettempdir() if self._is_remote else directory
        self._partial = os.path.join(folder, f".{self._name}.{os.getpid()}.partial")
        self._writer = array_record_module.ArrayRecordWriter(self._partial, OPTIONS)
        self._lengths: list[np.ndarray] = []
        self._content = ContentChecksum()
        self.num_examples = 0
        self.num_bytes = 0

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            self.discard()

    def discard(self) -> None:
        """Remove what was written."""
        Path(self._partial).unlink(missing_ok=True)
        with contextlib.suppress(RuntimeError):  # the disk may be full
            self._writer.close()

    def write(self, encoded: EncodedRecords) -> None:
        """Append examples.

        Raises:
          OSError: See ``finish``.
        """
        try:
            for record in encoded.records:
                self._writer.write(record)
                self.num_bytes += len(record)
        except RuntimeError as error:
            raise self._failed(error) from error
        self._lengths.append(encoded.lengths)
        self._content = self._content.followed_by(records_checksum(encoded, self._features))
        self.num_examples += len(encoded.records)

    def finish(self, *, num_skipped: int = 0) -> CacheShard:
        """Write the index and give the shard its name.

        Args:
          num_skipped: Rows of the source that could not be used.

        Raises:
          OSError: The disk is full, or the file can't be written for another reason.
        """
        try:
            self._writer.close()
        except RuntimeError as error:
            raise self._failed(error) from error
        nothing = np.zeros((0, len(self._features)), np.int64)
        lengths = np.concatenate([nothing, *self._lengths])
        content: Any = np.memmap(self._partial, np.uint8, mode="r")
        index = Index(
            offsets=record_offsets(memoryview(content), record_sizes(lengths, self._features).tolist()),
            lengths=lengths,
            block_checksums=block_checksums(content),
            num_skipped=num_skipped,
            content=self._content.value,
        )
        target = self._directory / self._name
        if self._is_remote:
            with open(self._partial, "rb") as written, target.open("wb") as stream:
                shutil.copyfileobj(written, stream, 8 * 2**20)
            Path(self._partial).unlink()
        else:
            with open(self._partial, "rb") as stream:
                os.fsync(stream.fileno())
            os.replace(self._partial, target)
        packed = _serialize_index(index)
        write_bytes(self._directory / index_name(self._name), packed)
        return _describe(self._name, len(content), index, packed)

    def _failed(self, error: RuntimeError) -> OSError:
        code = next((code for code in _CODES if os.strerror(code) in str(error)), errno.EIO)
        return OSError(code, os.strerror(code), os.fspath(self._directory / self._name))


# Ends of array_record's messages when the system refuses to write.
_CODES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def block_checksums(content: bytes | np.ndarray) -> np.ndarray:
    """Return the crc32c of every 64 KiB, uint32."""
    starts = range(0, len(content), BLOCK)
    return np.array([google_crc32c.value(content[start : start + BLOCK]) for start in starts], np.uint32)


def finished_shard(
    directory: str, number: int, features: Sequence[Feature], *, read_all: bool = True
) -> CacheShard | None:
    """Return a shard if it is finished and undamaged, otherwise None.

    Args:
      directory: Folder of the cache.
      number: Number of the shard.
      features: The features, in storage order.
      read_all: Check every byte; False checks the size alone.
    """
    name = shard_name(number)
    path, index_path = as_path(directory) / name, as_path(directory) / index_name(name)
    if not path.exists() or not index_path.exists():
        return None
    packed = index_path.read_bytes()
    try:
        index = parse_index(packed)
    except ValueError:
        return None
    if index.lengths.shape[1] != len(features):
        return None
    if not read_all:
        size = path.stat().length
        return (
            _describe(name, size, index, packed) if -(-size // BLOCK) == len(index.block_checksums) else None
        )
    size, checksums = checksums_of_file(path)
    if not np.array_equal(checksums, index.block_checksums):
        return None
    return _describe(name, size, index, packed)


def checksums_of_file(path: PathLike) -> tuple[int, np.ndarray]:
    """Return the size of a file and the checksum of each block."""
    size, checksums = 0, []
    with as_path(path).open("rb") as stream:
        while block := stream.read(BLOCK):
            size += len(block)
            checksums.append(google_crc32c.value(block))
    return size, np.array(checksums, np.uint32)


def parse_index(packed: bytes) -> Index:
    """Parse the bytes of an index.

    Raises:
      ValueError: The bytes are damaged.
    """
    try:
        with _NUMPY_HEADERS, np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
            return Index(
                offsets=arrays["places"],
                lengths=arrays["lengths"].astype(np.int64),
                block_checksums=arrays["block_checksums"],
                num_skipped=int(arrays["num_skipped"]),
                content=int(arrays["content"]) if "content" in arrays else None,
            )
    except (zipfile.BadZipFile, KeyError, EOFError, OSError, NotImplementedError) as error:
        raise ValueError(f"not an index: {error}") from error


def _serialize_index(index: Index) -> bytes:
    assert index.content is not None, "only what is read lacks it"
    buffer = io.BytesIO()
    widest = int(index.lengths.max(initial=0))
    lengths = index.lengths.astype(np.uint32 if widest < 2**32 else np.int64)
    np.savez(
        buffer,
        places=index.offsets,
        lengths=lengths,
        block_checksums=index.block_checksums,
        num_skipped=np.int64(index.num_skipped),
        content=np.int64(index.content),
    )
    return buffer.getvalue()


def _describe(name: str, size: int, index: Index, packed: bytes) -> CacheShard:
    return CacheShard(
        file=name,
        examples=len(index.lengths),
        bytes=size,
        checksum=checksum_of_blocks(index.block_checksums),
        index_checksum=checksum_of(packed),
        num_skipped=index.num_skipped,
        content=index.content,
    )


def checksum_of_blocks(checksums: np.ndarray) -> str:
    """Return a file's checksum: that of its blocks' checksums, little-endian."""
    return checksum_of(checksums.astype("<u4").tobytes())


def checksum_of(content: bytes) -> str:
    """Return the hexadecimal crc32c of bytes."""
    return f"{google_crc32c.value(content):08x}"
