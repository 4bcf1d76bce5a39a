"""Random access to the examples of a finished cache, without TensorFlow or seqio."""

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np

from t5x_like.io.fingerprint_check import refuse_other
from t5x_like.text.cache.cache_manifest import (
    REPAIR,
    Fingerprint,
    Manifest,
    lengths_name,
    read_checked,
    read_manifest,
)
from t5x_like.text.cache.damage import check_sizes, find_damage, raise_damage
from t5x_like.text.cache.record_encoding import decode, record_sizes
from t5x_like.text.cache.shard_readers import ShardReaders
from t5x_like.text.cache.shards import checksum_of
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_log = logging.getLogger(__name__)

OnCorruption = Literal["fail", "quarantine"]


class CachedExamples:
    """The examples of one task's split, numbered from 0 in the order of their source.

    >>> examples = CachedExamples.open("cache/king_james/train")  # doctest: +SKIP
    >>> examples.read(np.array([7, 0]))[0]["tokens"]  # doctest: +SKIP
    """

    def __init__(
        self,
        directory: str,
        manifest: Manifest,
        *,
        kept: np.ndarray | None = None,
        is_damaged: bool = False,
    ) -> None:
        """Use ``open`` instead.

        Args:
          directory: Folder of the cache.
          manifest: Its manifest.
          kept: Numbers of the examples that aren't quarantined; None for all.
          is_damaged: True if some shards are damaged.
        """
        self.directory = directory
        self.manifest = manifest
        self._kept = kept
        self._is_damaged = is_damaged
        self._ends = np.cumsum([shard.examples for shard in manifest.shards])
        self._lengths = {
            feature.name: np.load(os.path.join(directory, lengths_name(feature.name)), mmap_mode="r")
            for feature in manifest.contents.features
        }
        self._shards = ShardReaders(directory, manifest, by_offset=is_damaged)
        self._pool: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        *,
        task_fingerprint: Fingerprint | None = None,
        vocabulary_fingerprint: str | None = None,
        on_corruption: OnCorruption = "fail",
    ) -> "CachedExamples":
        """Open a finished cache.

        Args:
          directory: Local folder of the cache.
          task_fingerprint: Lines that the cache's fingerprint must have.
          vocabulary_fingerprint: Hash that the cache's vocabulary must have.
          on_corruption: "fail" checks file sizes here and bytes when they are read. "quarantine" checks every byte here
            and leaves out examples with damaged bytes, so that all hosts number the others alike.

        Raises:
          ValueError: The cache isn't finished, was made from something else (the message shows the difference), or is
            damaged (the message names file and offset).
        """
        if on_corruption not in ("fail", "quarantine"):
            raise ValueError(f"on_corruption must be 'fail' or 'quarantine', not {on_corruption!r}")
        name = os.fspath(directory)
        if "://" in name:
            raise ValueError(
                f"{name} is in a bucket, and array_record reads local files only; mount the bucket, or copy the folder"
            )
        manifest = read_manifest(name)
        again = "Make a cache of this task (t5x-like cache), or train on the task that the cache was made of."
        requested = dict(task_fingerprint or {})
        if vocabulary_fingerprint is not None:
            requested["vocabulary"] = vocabulary_fingerprint
        refuse_other(name, manifest.contents.identity, requested, what_to_do=again)
        for feature, checksum in manifest.lengths_checksums.items():
            read_checked(name, lengths_name(feature), checksum)
        if on_corruption == "fail":
            check_sizes(name, manifest)
            return cls(name, manifest)
        damage = find_damage(name, manifest)
        lost = damage.examples
        if not len(lost):
            return cls(name, manifest, is_damaged=damage.is_any)
        if len(lost) == manifest.num_examples:
            raise ValueError(f"{name}: every one of its {len(lost)} examples touches damaged bytes; {REPAIR}")
        counts = name, len(lost), manifest.num_examples, REPAIR
        _log.warning("%s: %d of %d examples touch damaged bytes and are left out; %s", *counts)
        kept = np.setdiff1d(np.arange(manifest.num_examples), lost, assume_unique=True)
        return cls(name, manifest, kept=kept, is_damaged=True)

    @property
    def ids(self) -> VocabularyIds:
        """Special ids, sentinels and word-initial ids of the vocabulary."""
        return self.manifest.contents.ids

    @property
    def vocabulary_fingerprint(self) -> str:
        """Hash of the vocabulary."""
        return self.manifest.contents.vocabulary_fingerprint

    @property
    def checksum(self) -> int:
        """Checksum of the examples, equal to that of the same examples in memory; quarantined examples change it.

        For a cache that an earlier version wrote, it is the manifest's checksum.
        """
        content = self.manifest.content
        checksum = self.manifest.checksum if content is None else content
        return checksum if self._kept is None else checksum ^ int(checksum_of(self._kept.tobytes()), 16) << 61

    @property
    def num_quarantined(self) -> int:
        """Number of examples left out because their bytes are damaged."""
        return self.manifest.num_examples - len(self)

    def __len__(self) -> int:
        return self.manifest.num_examples if self._kept is None else len(self._kept)

    def lengths(self, feature: str) -> np.ndarray:
        """Return the length of a feature in every example, int64 [examples].

        Raises:
          ValueError: There is no such feature.
        """
        if feature not in self._lengths:
            raise ValueError(
                f"{self.directory} has no feature {feature!r}; it has {', '.join(self._lengths)}"
            )
        return self._lengths[feature] if self._kept is None else self._lengths[feature][self._kept]

    def read(self, numbers: np.ndarray) -> list[dict[str, np.ndarray]]:
        """Return examples in the order of ``numbers``, as read-only arrays of the stored types.

        Raises:
          ValueError: A number is out of range, or bytes are damaged (the message names file and offset).
        """
        requested = np.asarray(numbers, np.int64).reshape(-1)
        if not len(requested):
            return []
        if requested.min() < 0 or requested.max() >= len(self):
            wrong = int(requested.min() if requested.min() < 0 else requested.max())
            raise ValueError(f"example {wrong} is out of range: there are {len(self)}")
        indices = requested if self._kept is None else self._kept[requested]
        features = self.manifest.contents.features
        lengths = np.stack([self._lengths[feature.name][indices] for feature in features], axis=1)
        records = self._read_records(indices)
        self._check(indices, records, record_sizes(lengths, features))
        return decode(records, lengths, features)

    def _read_records(self, indices: np.ndarray) -> list[bytes]:
        order = np.argsort(indices, kind="stable")
        shards = np.searchsorted(self._ends, indices[order], side="right")
        edges = np.flatnonzero(np.diff(shards, prepend=-1, append=-1))
        records: list[Any] = [None] * len(indices)

        def read(start: int, end: int) -> None:
            shard = int(shards[start])
            first = int(self._ends[shard]) - self.manifest.shards[shard].examples
            inside = (indices[order[start:end]] - first).tolist()
            shard_records = self._shards.read(shard, inside)
            for index, record in zip(order[start:end].tolist(), shard_records, strict=True):
                records[index] = record

        groups = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
        if len(groups) == 1 or _num_threads() == 1:
            for group in groups:
                read(*group)
        else:
            list(self._threads().map(lambda group: read(*group), groups))
        return records

    def _check(self, indices: np.ndarray, records: list[bytes], sizes: np.ndarray) -> None:
        actual = np.fromiter(map(len, records), np.int64, len(records))
        wrong = np.flatnonzero(actual != sizes)
        if len(wrong):
            example_index = int(indices[wrong[0]])
            shard = int(np.searchsorted(self._ends, example_index, side="right"))
            raise_damage(
                self.directory,
                self.manifest.shards[shard],
                f"example {example_index} has {actual[wrong[0]]} bytes, {sizes[wrong[0]]} are expected",
            )

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None or self._process != os.getpid():  # a forked process has no threads yet
            self._pool = ThreadPoolExecutor(_num_threads(), "cache")
            self._process = os.getpid()
        return self._pool

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.directory, self.manifest, self._kept, self._is_damaged)


def _num_threads() -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(8, usable)


def _again(directory: str, manifest: Manifest, kept: np.ndarray | None, is_damaged: bool) -> CachedExamples:
    """Open the same cache in another process without checking it again."""
    return CachedExamples(directory, manifest, kept=kept, is_damaged=is_damaged)
