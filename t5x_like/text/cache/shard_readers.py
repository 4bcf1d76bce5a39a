"""Lazily opened readers of a cache's shards, within the system's limit of open files."""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from t5x_like.text.cache.cache_manifest import Manifest, read_checked
from t5x_like.text.cache.damage import raise_damage
from t5x_like.text.cache.record_encoding import record_sizes
from t5x_like.text.cache.record_offsets import read_record
from t5x_like.text.cache.shards import Index, index_name, parse_index

_MOST_OPEN = 512
_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"  # recommended for random access
_BUFFER = 64 * 2**10  # bytes for each open file


class ShardReaders:
    """Reads records by shard and number. Threads may share it; a forked process opens its own files."""

    def __init__(self, directory: str, manifest: Manifest, *, by_offset: bool) -> None:
        """Prepare to read; files are opened on first use.

        Args:
          directory: Folder of the cache.
          manifest: Its manifest.
          by_offset: Read records by their file offsets, which also works in files that are damaged elsewhere.
        """
        self._directory, self._manifest = directory, manifest
        self._by_offset = by_offset
        self._open: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._process = os.getpid()

    def read(self, shard: int, numbers: Sequence[int]) -> list[bytes]:
        """Read records of one shard.

        Args:
          shard: Index of the shard.
          numbers: Indices of records in the shard.

        Raises:
          ValueError: The file is damaged; the message names the position.
        """
        try:
            return self._reader(shard).read(numbers)
        except (RuntimeError, OSError) as error:
            raise_damage(self._directory, self._manifest.shards[shard], str(error))

    def _reader(self, shard: int) -> Any:
        with self._lock:
            if self._process != os.getpid():
                self._open, self._process = OrderedDict(), os.getpid()
            if shard not in self._open:
                while len(self._open) >= _MOST_OPEN:
                    self._open.popitem(last=False)  # closed when the last thread is done with it
                self._open[shard] = self._opened(shard)
            self._open.move_to_end(shard)
            return self._open[shard]

    def _opened(self, shard: int) -> Any:
        described = self._manifest.shards[shard]
        path = os.path.join(self._directory, described.file)
        if not self._by_offset:
            from array_record.python.array_record_module import ArrayRecordReader

            return _SequentialReader(ArrayRecordReader(path, _OPTIONS, file_reader_buffer_size=_BUFFER))
        packed = read_checked(self._directory, index_name(described.file), described.index_checksum)
        return _OffsetReader(path, parse_index(packed), self._manifest)


class _SequentialReader:
    """Reads records in the calling thread.

    array_record's own ``read(numbers)`` uses 64 threads. For small records on a local disk that is no faster, warm or
    cold. malloc gives each thread a heap, and these grew over 100,000 batches.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._lock = threading.Lock()  # seeking and reading are two calls

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        """Read records by their numbers."""
        with self._lock:
            return [self._one(record) for record in numbers]

    def _one(self, record: int) -> bytes:
        self._reader.seek(record)
        return self._reader.read()


class _OffsetReader:
    """Reads records at the offsets in the index."""

    def __init__(self, path: str, index: Index, manifest: Manifest) -> None:
        self._offsets = index.offsets
        self._sizes = record_sizes(index.lengths, manifest.contents.features)
        self._file = os.open(path, os.O_RDONLY)

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        """Read records by their numbers."""
        return [self._one(record) for record in numbers]

    def _one(self, record: int) -> bytes:
        start, end, size = (int(each) for each in (*self._offsets[record : record + 2], self._sizes[record]))
        return read_record(lambda offset, length: os.pread(self._file, length, offset), start, end, size)

    def __del__(self) -> None:
        os.close(self._file)
