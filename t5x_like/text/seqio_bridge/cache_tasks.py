"""Caching of tasks that users registered with seqio: their own pipelines up to the CacheDatasetPlaceholder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import seqio

from t5x_like.io.engine import Engine
from t5x_like.text.cache.cache_manifest import CacheContents, Manifest
from t5x_like.text.cache.record_encoding import encode, sort_features
from t5x_like.text.cache.shards import CacheShard, ShardWriter, finished_shard
from t5x_like.text.cache.writing import processes, write_units
from t5x_like.text.fields import Feature, token_dtype
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.seqio_bridge.data_sources import token_examples
from t5x_like.text.seqio_bridge.task_fingerprint import (
    cached_steps,
    remaining_steps,
    seqio_fingerprint,
    vocabulary_fingerprint,
)
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

_ROWS_AT_ONCE = 1024
_SEED = 0  # makes random steps before the cache reproducible


def cache_seqio_split(
    task: seqio.Task,
    split: str,
    output: str,
    *,
    num_shards: int | None = None,
    num_processes: int = 1,
    modules: Sequence[str] = (),
    prepare: Callable[[], object] | None = None,
    engine: Engine | None = None,
) -> Manifest:
    """Cache a split of a task that is registered with seqio; the counterpart of ``cache_split``.

    Args:
      task: The task.
      split: Name of the split.
      output: Folder of the cache.
      num_shards: Files of the cache; by default one for each file of the source.
      num_processes: Worker processes, each of which runs the pipeline over shards of the source.
      modules: Modules whose import registers the task.
      prepare: Called in each worker before.
      engine: Writes the shards instead of worker processes.

    Raises:
      ValueError: See ``cache_split``.
    """
    contents = _cache_contents(task, split, seqio_fingerprint(task, split))
    units = source_units(task, contents, num_units=num_shards, modules=modules)
    return write_units(contents, output, units, engine or processes(num_processes, prepare))


def _cache_contents(task: seqio.Task, split: str, fingerprint: dict[str, str]) -> CacheContents:
    """Return the description of a split's cache.

    Raises:
      ValueError: The pipeline needs sequence lengths, or gives none of the task's features.
    """
    main = "targets" if "targets" in task.output_features else next(iter(task.output_features))
    vocabulary = task.output_features[main].vocabulary
    return CacheContents(
        task=task.name,
        split=split,
        features=_features(task, split),
        fingerprint=fingerprint,
        vocabulary_fingerprint=vocabulary_fingerprint(vocabulary),
        ids=ids_of(vocabulary),
        remaining_steps=tuple(remaining_steps(task)),
    )


@dataclass(frozen=True, kw_only=True)
class SourceUnit:
    """Examples of one shard of a task's source, as one shard of the cache.

    Attributes:
      task: Name of the task.
      split: Name of the split.
      number: Number of the shard.
      num_units: Number of shards.
      features: Features to store.
      modules: Modules whose import registers the task.
    """

    task: str
    split: str
    number: int
    num_units: int
    features: tuple[Feature, ...]
    modules: tuple[str, ...] = ()

    def __call__(self, directory: str) -> CacheShard:
        """Write the shard, unless it exists.

        Raises:
          ValueError: The task isn't known in this process, or an example can't be stored.
        """
        finished = finished_shard(directory, self.number, self.features)
        if finished is not None:
            return finished
        registration.import_modules(self.modules)
        shard = seqio.ShardInfo(self.number, self.num_units) if self.num_units > 1 else None
        task = registration.get_task(self.task)
        rows = token_examples(task, _dataset(task, self.split, shard))
        with ShardWriter(directory, self.number, self.features) as writer:
            while piece := list(islice(rows, _ROWS_AT_ONCE)):
                writer.write(encode(piece, self.features))
            return writer.finish()


def source_units(
    task: seqio.Task, contents: CacheContents, *, num_units: int | None, modules: Sequence[str]
) -> list[SourceUnit]:
    """Return the shards of a cache.

    Args:
      task: The task.
      contents: Description of the cache.
      num_units: Number of shards; by default that of the source.
      modules: Modules whose import registers the task.
    """
    count = num_units or max(len(task.source.list_shards(contents.split)), 1)
    return [
        SourceUnit(
            task=task.name,
            split=contents.split,
            number=each,
            num_units=count,
            features=contents.features,
            modules=tuple(modules),
        )
        for each in range(count)
    ]


def _dataset(task: seqio.Task, split: str, shard: seqio.ShardInfo | None) -> Any:
    source = task.source
    # Each file of a source is a shard; sources with fewer files are split by example.
    by_source = shard is None or source.supports_arbitrary_sharding
    by_source = by_source or (shard is not None and len(source.list_shards(split)) >= shard.num_shards)
    dataset = source.get_dataset(
        split=split, shuffle=False, seed=_SEED, shard_info=shard if by_source else None
    )
    if shard is not None and not by_source:
        dataset = dataset.shard(shard.num_shards, shard.index)
    try:
        if task.supports_caching:
            return task.preprocess_precache(dataset, seed=_SEED)
        return task.preprocess_postcache(dataset, sequence_length=None, seed=_SEED)
    except Exception as error:  # the user's steps may raise anything
        reason = ([line.strip() for line in str(error).splitlines() if line.strip()] or [""])[-1]
        raise ValueError(
            f"task {task.name!r}: its steps {[seqio.utils.function_name(step) for step in cached_steps(task)]} fail "
            f"without sequence lengths ({type(error).__name__}: {reason}). Put seqio.CacheDatasetPlaceholder() before "
            "the first step that needs them: what comes before it is cached"
        ) from error


def _features(task: seqio.Task, split: str) -> tuple[Feature, ...]:
    spec = _dataset(task, split, None).element_spec
    features = []
    for name, feature in task.output_features.items():
        if name not in spec:
            continue
        shape, dtype = spec[name].shape, spec[name].dtype
        if shape.rank is None or shape.rank not in (1, 2) or (shape.rank == 2 and not shape[1]):
            raise ValueError(
                f"task {task.name!r}: feature {name!r} has the shape {shape}; a cache holds arrays of one dimension, "
                "or of two with the second fixed"
            )
        width = shape[1] if shape.rank == 2 else None
        stored = token_dtype(feature.vocabulary.vocab_size) if dtype.is_integer else dtype.name
        features.append(Feature(name=name, dtype=stored, width=width))
    if not features:
        raise ValueError(
            f"task {task.name!r}: the steps up to the cache give {', '.join(spec)}, none of the task's features "
            f"{', '.join(task.output_features)}; tokenize before the CacheDatasetPlaceholder"
        )
    return sort_features(features)
