"""Tokenization of a task's split into a cache with random access: shards first, the manifest last."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from t5x_like.io.engine import Engine
from t5x_like.io.engines import ProcessEngine
from t5x_like.io.files import as_path, write_bytes
from t5x_like.io.paths import find_files
from t5x_like.io.progress import Progress
from t5x_like.io.worker_pool import WorkerPool
from t5x_like.io.writer_lock import exclusive_writer
from t5x_like.text.cache import file_units
from t5x_like.text.cache.cache_manifest import (
    CacheContents,
    Manifest,
    array_bytes,
    lengths_name,
    write_manifest,
)
from t5x_like.text.cache.fingerprint import task_fingerprint
from t5x_like.text.cache.sharding import Sharding, ShardingByCount, ShardingBySize, write_stream
from t5x_like.text.cache.shards import CacheShard, checksum_of, finished_shard, index_name, parse_index
from t5x_like.text.cache.unfinished_cache import kept_shards, load_finished_cache, start_cache
from t5x_like.text.fields import Feature
from t5x_like.text.tasks.file_task import FileTask


class Unit(Protocol):
    """Work for one process or machine; can be pickled."""

    @property
    def number(self) -> int:
        """Number of the shard that the unit writes."""
        ...

    @property
    def features(self) -> tuple[Feature, ...]:
        """Features of the shard's examples."""
        ...

    def __call__(self, directory: str) -> CacheShard:
        """Write the shard into a folder unless it exists."""
        ...


SHARD_BYTES = 512 * 2**20  # most work that a kill can cost; a corpus of T5's size has some hundreds of files


def cache_split(
    task: FileTask[object],
    split: str,
    output: str,
    *,
    num_shards: int | None = None,
    num_processes: int = 1,
    shard_bytes: int = SHARD_BYTES,
    engine: Engine | None = None,
) -> Manifest:
    """Write the cache ``output/task/split``, or continue an interrupted one.

    Examples, their order and bytes are the same for any number of processes and after any number of interruptions.
    Files are read in this process and tokenized by ``num_processes``.

    Args:
      task: The task.
      split: Its split.
      output: Folder or bucket of caches.
      num_shards: Number of shards of equally many examples; None fills shards of ``shard_bytes``.
      num_processes: Number of processes that tokenize.
      shard_bytes: Size of a shard.
      engine: Does the work instead, with a shard for each file, see ``t5x_like.io.engines.cluster_engine``.

    Raises:
      ValueError: The folder holds another cache or something else, a row is bad, or the task can't be cached.
    """
    task = task.as_trained()
    contents = file_units.cache_contents(task, split, task_fingerprint(task, split))
    if engine is not None:
        units = file_units.file_units(task, split)
        if num_shards not in (None, len(units)):
            raise ValueError(
                f"task {task.name!r}: on a cluster there is a shard for each of its {len(units)} files; leave "
                "num_shards out, or split the files differently"
            )
        return write_units(contents, output, units, engine)
    with _directory(output, contents) as directory:
        finished = load_finished_cache(directory, contents)
        if finished is not None:
            return finished
        sharding = _sharding(task, split, num_shards, shard_bytes)
        contents = replace(contents, sharding=str(sharding))
        start_cache(directory, contents)
        shards, num_skipped = _stream(task, contents, directory, sharding, num_processes)
        return _finish(directory, contents, shards, num_skipped)


def write_units(contents: CacheContents, output: str, units: Sequence[Unit], engine: Engine) -> Manifest:
    """Write the cache ``output/task/split`` with a shard for each unit of work, or continue an interrupted one.

    Args:
      contents: Contents of the cache.
      output: Folder or bucket of caches.
      units: The work.
      engine: Does it.

    Raises:
      ValueError: See ``cache_split``.
    """
    with _directory(output, contents) as directory:
        finished = load_finished_cache(directory, contents)
        if finished is not None:
            return finished
        contents = replace(contents, sharding=f"a shard for each of {len(units)} parts of the source")
        start_cache(directory, contents)
        shards = _run_units(units, directory, engine, contents.task)
        return _finish(directory, contents, shards, sum(shard.num_skipped for shard in shards))


@contextlib.contextmanager
def _directory(output: str, contents: CacheContents) -> Iterator[str]:
    directory = os.fspath(as_path(output) / contents.task / contents.split)
    as_path(directory).mkdir(parents=True, exist_ok=True)
    with exclusive_writer(directory, "cache"):
        yield directory


def _sharding(task: FileTask[object], split: str, num_shards: int | None, shard_bytes: int) -> Sharding:
    if num_shards is None:
        return ShardingBySize(num_bytes=shard_bytes)
    num_examples = _count_rows(task, split)
    if not 1 <= num_shards <= num_examples:
        raise ValueError(
            f"num_shards must lie between 1 and the {num_examples} examples of task {task.name!r}, split {split!r}; "
            f"got {num_shards}"
        )
    return ShardingByCount(num_examples=num_examples, num_shards=num_shards)


def _count_rows(task: FileTask[Any], split: str) -> int:
    read, num_rows = file_units.BytesRead(find_files(task.files[split])), 0
    with Progress(f"{task.name} {split}: counting", read.total, "bytes") as progress:
        for num_rows, row in enumerate(task.read(split), start=1):
            read.take(row)
            if num_rows % 1000 == 0:
                progress.reach(read.done)
    return num_rows


def _stream(
    task: FileTask[Any], contents: CacheContents, directory: str, sharding: Sharding, num_processes: int
) -> tuple[list[CacheShard], int]:
    shards = kept_shards(directory, contents.features)
    read = file_units.BytesRead(find_files(task.files[contents.split]))
    policy = task.row_policy()
    encoder = file_units.RowEncoder(definition=task, features=contents.features)
    with (
        Progress(f"{task.name} {contents.split}", read.total, "bytes") as progress,
        _workers(encoder, num_processes) as pool,
    ):

        def rows() -> Iterator[file_units.SourceRow]:
            to_skip = sum(shard.examples for shard in shards)
            for index, row in enumerate(task.read(contents.split, policy)):
                read.take(row)
                if index % 1000 == 0:
                    progress.reach(read.done)
                if index >= to_skip:
                    yield row

        encoded = (piece for _, piece in pool.in_order(file_units.batch_rows(rows())))
        written = write_stream(
            encoded, directory, first=len(shards), sharding=sharding, features=contents.features
        )
        with contextlib.closing(encoded), contextlib.closing(written):
            new = list(written)
        progress.reach(read.total)
    return [*shards, *new], policy.num_skipped


def processes(num_processes: int, prepare: Callable[[], object] | None = None) -> ProcessEngine:
    """Return processes of this machine as an engine of ``write_units``.

    Args:
      num_processes: Number of processes.
      prepare: Called first in each process.
    """
    return ProcessEngine(
        num_processes=num_processes,
        owner="the cache writer",
        flag="num_processes",
        kept="shards",
        prepare=prepare,
    )


def _run_units(units: Sequence[Unit], directory: str, engine: Engine, label: str) -> list[CacheShard]:
    with (
        Progress(label, len(units), "shards") as progress,
        engine.start(_run, num_pieces=len(units)) as run,
        contextlib.closing(run([(unit, directory) for unit in units])) as ended,
    ):
        for _ in ended:
            progress.add(1)
    return [_written(unit, directory) for unit in units]


def _written(unit: Unit, directory: str) -> CacheShard:
    shard = finished_shard(directory, unit.number, unit.features, read_all=False)
    if shard is None:
        raise ValueError(
            f"shard {unit.number} of {directory} is not there although it was written; every machine must reach that "
            "folder: choose a bucket or a shared disk for output"
        )
    return shard


def _workers(function: Callable[[Any], Any], num_processes: int) -> WorkerPool[Any, Any]:
    """Return that many processes, or this process for one."""
    return WorkerPool(
        function,
        num_processes if num_processes > 1 else 0,
        owner="the cache writer",
        flag="num_processes",
        kept="shards",
    )


def _run(work: tuple[Unit, str]) -> CacheShard:
    unit, directory = work
    return unit(directory)


def _finish(
    directory: str, contents: CacheContents, shards: Sequence[CacheShard], num_skipped: int
) -> Manifest:
    """Join the lengths of all shards into one array for each feature, then write the manifest."""
    if not sum(shard.examples for shard in shards):
        raise ValueError(f"task {contents.task!r}, split {contents.split!r}: no examples")
    folder = as_path(directory)
    indices = [parse_index((folder / index_name(shard.file)).read_bytes()).lengths for shard in shards]
    num_tokens, checksums = {}, {}
    for column, feature in enumerate(contents.features):
        lengths = np.concatenate([index[:, column] for index in indices])
        num_tokens[feature.name] = int(lengths.sum())
        packed = array_bytes(lengths)
        checksums[feature.name] = checksum_of(packed)
        write_bytes(folder / lengths_name(feature.name), packed)
    manifest = Manifest(
        contents=contents,
        shards=tuple(shards),
        num_tokens=num_tokens,
        lengths_checksums=checksums,
        num_skipped=num_skipped,
    )
    write_manifest(directory, manifest)
    return manifest
