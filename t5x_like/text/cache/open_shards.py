"""The shards of a cache, opened when they are first read, so many at a time as the system lets a process have."""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from t5x_like.text.cache.cache_manifest import Manifest, read_checked
from t5x_like.text.cache.damage import raise_damage
from t5x_like.text.cache.record_encoding import record_sizes
from t5x_like.text.cache.record_offsets import read_record
from t5x_like.text.cache.shards import Index, index_name, unpack

_MOST_OPEN = 512
_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"  # the ones for random access
_BUFFER = 64 * 2**10  # bytes for each open file


class OpenShards:
    """Records by shard and number. Threads may share it; a forked process opens its own."""

    def __init__(self, directory: str, manifest: Manifest, *, read_around_damage: bool) -> None:
        """``read_around_damage`` reads records one by one from their places, which works in files that are damaged
        elsewhere."""
        self._directory, self._manifest = directory, manifest
        self._around_damage = read_around_damage
        self._open: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._process = os.getpid()

    def read(self, shard: int, numbers: Sequence[int]) -> list[bytes]:
        """Records of one shard.

        Raises:
          ValueError: the file is damaged; says where.
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
        if not self._around_damage:
            from array_record.python.array_record_module import ArrayRecordReader

            return _OneByOne(ArrayRecordReader(path, _OPTIONS, file_reader_buffer_size=_BUFFER))
        packed = read_checked(self._directory, index_name(described.file), described.index_checksum)
        return _ByPlace(path, unpack(packed), self._manifest)


class _OneByOne:
    """Reads records in the thread that asks for them.

    array_record's own ``read(numbers)`` has 64 threads do it. That is no faster for small records on a local disk,
    warm or cold, and malloc gives each thread a heap of its own, which grew over 100,000 batches.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._lock = threading.Lock()  # seeking and reading are two calls

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        with self._lock:
            return [self._one(number) for number in numbers]

    def _one(self, number: int) -> bytes:
        self._reader.seek(number)
        return self._reader.read()


class _ByPlace:
    """Reads records from where the index says that they lie, by file position alone."""

    def __init__(self, path: str, index: Index, manifest: Manifest) -> None:
        self._places = index.places
        self._sizes = record_sizes(index.lengths, manifest.contents.features)
        self._file = os.open(path, os.O_RDONLY)

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        return [self._one(number) for number in numbers]

    def _one(self, number: int) -> bytes:
        start, end, size = (int(each) for each in (*self._places[number : number + 2], self._sizes[number]))
        return read_record(lambda place, length: os.pread(self._file, length, place), start, end, size)

    def __del__(self) -> None:
        os.close(self._file)
