"""One shard of a cache: an ArrayRecord file, and an index of where its examples are and how long.

The index is written last: a shard without one is unfinished. Both come under their names by a rename, so that a
kill at any moment leaves a whole shard or none.
"""

import contextlib
import errno
import io
import os
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from t5x_like.io.files import as_path, write_bytes
from t5x_like.text.cache.content import ContentChecksum, content_of_records
from t5x_like.text.cache.record_encoding import EncodedRecords, Feature, record_sizes
from t5x_like.text.cache.record_offsets import BLOCK, record_places

# One record a chunk: random access reads what it needs. Not compressed: the same bytes with every version of a
# compressor, records that can be found without the file's own index; two bytes a token squeeze little anyway.
OPTIONS = "group_size:1,uncompressed"

# numpy parses an array's header by ast.literal_eval, which CPython 3.11 and 3.12 may fail with a SystemError when
# several threads call it at once (https://github.com/python/cpython/issues/106905).
_NUMPY_HEADERS = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class CacheShard:
    """A finished shard as the manifest knows it. Checksums are crc32c."""

    file: str
    examples: int
    bytes: int
    checksum: str
    index_checksum: str
    num_skipped: int = 0  # rows of the source that could not be used
    content: int | None = None  # ``Content.value`` of its examples; None where an earlier version wrote it


@dataclass(frozen=True, kw_only=True)
class Index:
    """What is kept beside a shard."""

    places: np.ndarray  # int64 [examples + 1], where in the file each record begins
    lengths: np.ndarray  # int64 [examples, features]
    block_checksums: np.ndarray  # uint32 [blocks of 64 KiB]
    num_skipped: int = 0  # rows of the source that could not be used
    content: int | None = None  # see ``CacheShard``


def index_name(file: str) -> str:
    """The index that belongs to a shard's file."""
    return file.removesuffix(".array_record") + ".index.npz"


def shard_name(number: int) -> str:
    """The file of the ``number``-th shard."""
    return f"{number:05d}.array_record"


class ShardWriter:
    """Writes one shard. Use as a context: it is finished at the end, or thrown away if an error comes by."""

    def __init__(self, directory: str, number: int, features: Sequence[Feature]) -> None:
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

    def __exit__(self, error: Any, *_: object) -> None:
        if error is not None:
            self.discard()

    def discard(self) -> None:
        """Throws away what was written."""
        Path(self._partial).unlink(missing_ok=True)
        with contextlib.suppress(RuntimeError):  # a full disk is no news here
            self._writer.close()

    def write(self, encoded: EncodedRecords) -> None:
        """Appends examples.

        Raises:
          OSError: as ``finish``.
        """
        try:
            for record in encoded.records:
                self._writer.write(record)
                self.num_bytes += len(record)
        except RuntimeError as error:
            raise self._failed(error) from error
        self._lengths.append(encoded.lengths)
        self._content = self._content.followed_by(content_of_records(encoded, self._features))
        self.num_examples += len(encoded.records)

    def finish(self, *, num_skipped: int = 0) -> CacheShard:
        """Gives the shard its name.

        Raises:
          OSError: the disk is full, or the file can't be written for another reason.
        """
        try:
            self._writer.close()
        except RuntimeError as error:
            raise self._failed(error) from error
        nothing = np.zeros((0, len(self._features)), np.int64)
        lengths = np.concatenate([nothing, *self._lengths])
        content: Any = np.memmap(self._partial, np.uint8, mode="r")
        index = Index(
            places=record_places(memoryview(content), record_sizes(lengths, self._features).tolist()),
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
        packed = _pack(index)
        write_bytes(self._directory / index_name(self._name), packed)
        return _describe(self._name, len(content), index, packed)

    def _failed(self, error: RuntimeError) -> OSError:
        code = next((code for code in _CODES if os.strerror(code) in str(error)), errno.EIO)
        return OSError(code, os.strerror(code), os.fspath(self._directory / self._name))


# What array_record's messages end in when the system refuses to write.
_CODES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def block_checksums(content: Any) -> np.ndarray:
    """The crc32c of every 64 KiB, uint32."""
    starts = range(0, len(content), BLOCK)
    return np.array([google_crc32c.value(content[start : start + BLOCK]) for start in starts], np.uint32)


def finished_shard(
    directory: str, number: int, features: Sequence[Feature], *, read_all: bool = True
) -> CacheShard | None:
    """The shard if it was finished and is as it was written; None otherwise.

    That is found out by reading every byte, or, without ``read_all``, by its size.
    """
    name = shard_name(number)
    path, index_path = as_path(directory) / name, as_path(directory) / index_name(name)
    if not path.exists() or not index_path.exists():
        return None
    packed = index_path.read_bytes()
    try:
        index = unpack(packed)
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


def checksums_of_file(path: Any) -> tuple[int, np.ndarray]:
    """How many bytes a file has, and the checksum of each block."""
    size, checksums = 0, []
    with as_path(path).open("rb") as stream:
        while block := stream.read(BLOCK):
            size += len(block)
            checksums.append(google_crc32c.value(block))
    return size, np.array(checksums, np.uint32)


def unpack(packed: bytes) -> Index:
    """The index in the bytes of its file.

    Raises:
      ValueError: the bytes are damaged.
    """
    try:
        with _NUMPY_HEADERS, np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
            return Index(
                places=arrays["places"],
                lengths=arrays["lengths"].astype(np.int64),
                block_checksums=arrays["block_checksums"],
                num_skipped=int(arrays["num_skipped"]),
                content=int(arrays["content"]) if "content" in arrays else None,
            )
    except (zipfile.BadZipFile, KeyError, EOFError, OSError, NotImplementedError) as error:
        raise ValueError(f"not an index: {error}") from error


def _pack(index: Index) -> bytes:
    assert index.content is not None, "only what is read lacks it"
    buffer = io.BytesIO()
    widest = int(index.lengths.max(initial=0))
    lengths = index.lengths.astype(np.uint32 if widest < 2**32 else np.int64)
    np.savez(
        buffer,
        places=index.places,
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
        checksum=of_blocks(index.block_checksums),
        index_checksum=checksum_of(packed),
        num_skipped=index.num_skipped,
        content=index.content,
    )


def of_blocks(checksums: np.ndarray) -> str:
    """A file's checksum: that of its blocks' checksums, little-endian."""
    return checksum_of(checksums.astype("<u4").tobytes())


def checksum_of(content: bytes | Iterable[bytes]) -> str:
    """The crc32c of some bytes, or of parts of them, in hexadecimal."""
    checksum = 0
    for part in [content] if isinstance(content, bytes) else content:
        checksum = google_crc32c.extend(checksum, part)
    return f"{checksum:08x}"
