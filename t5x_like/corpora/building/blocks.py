"""Files between two stages: compressed, checksummed blocks, each addressed to one of many readers.

Layout of a file: the blocks in the order they were written; the index, one ``_ENTRY`` for each block, sorted by reader;
the position in the index at which each reader's entries begin, int64 [readers + 1]; ``_TAIL``. A reader fetches its
own part of the index and its own blocks, so thousands of readers can share thousands of files.
"""

import contextlib
import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Self

import google_crc32c
import numpy as np

from t5x_like.corpora.building.atomic_files import open_atomically
from t5x_like.io.decompression import import_zstandard
from t5x_like.io.files import as_path

_ENTRY = np.dtype([("reader", "<u4"), ("checksum", "<u4"), ("offset", "<u8"), ("size", "<u8")])
_TAIL = struct.Struct("<QQ8s")  # start of the index, number of readers
_MAGIC = b"t5xblk01"
_LEVEL = 1  # of zstd: a third of the size, in a tenth of the time that processing takes


class BlockWriter:
    """Writes one file; use ``BlockWriter.open``."""

    def __init__(self, stream: BinaryIO, num_readers: int) -> None:
        self._stream, self._num_readers = stream, num_readers
        self._compressor = import_zstandard().ZstdCompressor(level=_LEVEL)
        self._entries: list[tuple[int, int, int, int]] = []
        self._end = 0

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: str, *, num_readers: int) -> Iterator[Self]:
        """Open a file, which appears when the context ends without an error.

        Args:
          path: A local or bucket path.
          num_readers: Number of readers that blocks can be addressed to.
        """
        with open_atomically(path) as stream:
            writer = cls(stream, num_readers)
            yield writer
            writer._write_index()

    def write(self, reader: int, content: bytes) -> None:
        """Append a block.

        Args:
          reader: Index of the reader that the block is for.
          content: Bytes, stored compressed.
        """
        block = self._compressor.compress(content)
        self._append(reader, google_crc32c.value(block), block)

    def write_rows(self, rows: np.ndarray, readers: np.ndarray) -> None:
        """Append a block for each reader with its rows, in their order.

        Args:
          rows: [rows, …].
          readers: Integers [rows], the index of each row's reader.
        """
        order = np.argsort(readers, kind="stable")
        rows, readers = rows[order], readers[order]
        starts = (
            np.flatnonzero(np.append(True, readers[1:] != readers[:-1])) if len(rows) else np.zeros(0, int)
        )
        for start, end in itertools.pairwise([*starts.tolist(), len(rows)]):
            self.write(int(readers[start]), rows[start:end].tobytes())

    def gather(self, paths: Sequence[str]) -> None:
        """Append the blocks of other files that have the same readers, sorted by reader."""
        with contextlib.ExitStack() as opened:
            streams = [opened.enter_context(as_path(path).open("rb")) for path in paths]
            indices = [_index(stream, path, None) for stream, path in zip(streams, paths, strict=True)]
            file = np.repeat(np.arange(len(paths)), [len(index) for index in indices])
            index = np.concatenate([np.zeros(0, _ENTRY), *indices])
            for index_row in np.lexsort([index["offset"], file, index["reader"]]).tolist():
                reader, checksum, offset, size = index[index_row].item()
                streams[file[index_row]].seek(offset)
                self._append(reader, checksum, streams[file[index_row]].read(size))

    def _append(self, reader: int, checksum: int, block: bytes) -> None:
        self._entries.append((reader, checksum, self._end, len(block)))
        self._stream.write(block)
        self._end += len(block)

    def _write_index(self) -> None:
        index = np.array(self._entries, _ENTRY)
        index = index[np.argsort(index["reader"], kind="stable")]
        starts = np.searchsorted(index["reader"], np.arange(self._num_readers + 1)).astype("<i8")
        self._stream.write(index.tobytes() + starts.tobytes())
        self._stream.write(_TAIL.pack(self._end, self._num_readers, _MAGIC))


def read_blocks(path: str, reader: int) -> Iterator[bytes]:
    """Yield the blocks for one reader, in the order they were written.

    Args:
      path: A file of a ``BlockWriter``.
      reader: Index of the reader.

    Raises:
      ValueError: The file is damaged.
    """
    decompressor = import_zstandard().ZstdDecompressor()
    with as_path(path).open("rb") as stream:
        for entry in _index(stream, path, reader):
            stream.seek(int(entry["offset"]))
            block = stream.read(int(entry["size"]))
            if google_crc32c.value(block) != entry["checksum"]:
                raise damaged(path, f"the block at byte {entry['offset']}")
            yield decompressor.decompress(block)


def _index(stream: Any, path: str, reader: int | None) -> np.ndarray:
    """Return ``_ENTRY`` [blocks] for one reader, or for all readers if ``reader`` is None."""
    stream.seek(0, 2)
    size = stream.tell()
    if size < _TAIL.size:
        raise damaged(path, "its end")
    stream.seek(size - _TAIL.size)
    start, num_readers, magic = _TAIL.unpack(stream.read(_TAIL.size))
    table = size - _TAIL.size - 8 * (num_readers + 1)
    if (
        magic != _MAGIC
        or not start <= table
        or (table - start) % _ENTRY.itemsize
        or (reader or 0) >= num_readers
    ):
        raise damaged(path, "its end")
    count = (table - start) // _ENTRY.itemsize
    first, end = 0, count
    if reader is not None:
        stream.seek(table + 8 * reader)
        first, end = np.frombuffer(stream.read(16), "<i8").tolist()
    if not 0 <= first <= end <= count:
        raise damaged(path, "its index")
    before, after = max(first - 1, 0), min(end + 1, count)  # adjacent entries must be other readers'
    stream.seek(start + before * _ENTRY.itemsize)
    around = np.frombuffer(stream.read((after - before) * _ENTRY.itemsize), _ENTRY)
    entries = around[first - before : end - before]
    wrong = (entries["offset"] + entries["size"] > start).any()
    if reader is not None:
        expected = [*([-1] * (first - before)), *([0] * len(entries)), *([1] * (after - end))]
        wrong |= (np.sign(around["reader"].astype(np.int64) - reader) != expected).any()
    if wrong:
        raise damaged(path, "its index")
    return entries


def damaged(path: str, what: str) -> ValueError:
    """Return the error for a damaged file between two stages.

    Args:
      path: The file.
      what: The damaged part.
    """
    return ValueError(
        f"{path} is damaged: {what} is not as it was written; delete that file and start the same command again, "
        "which writes it again"
    )
