"""Reading a finished cache: any examples by number, without TensorFlow or seqio."""

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np

from t5x_like.text.cache.cache_manifest import (
    REPAIR,
    Fingerprint,
    Manifest,
    lengths_name,
    read_checked,
    read_manifest,
    refuse_other,
)
from t5x_like.text.cache.damage import check_sizes, find_damage, raise_damage
from t5x_like.text.cache.open_shards import OpenShards
from t5x_like.text.cache.record_encoding import decode, record_sizes
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
        """Use ``open``. ``kept`` are the numbers of the examples that are not quarantined; None for all."""
        self.directory = directory
        self.manifest = manifest
        self._kept = kept
        self._is_damaged = is_damaged
        self._ends = np.cumsum([shard.examples for shard in manifest.shards])
        self._lengths = {
            feature.name: np.load(os.path.join(directory, lengths_name(feature.name)), mmap_mode="r")
            for feature in manifest.contents.features
        }
        self._shards = OpenShards(directory, manifest, read_around_damage=is_damaged)
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
        """Opens a finished cache, which must have been made from the task and vocabulary of these fingerprints.

        With ``on_corruption="fail"`` files of a wrong size are found here and damaged bytes where they are read. With
        ``"quarantine"`` every byte is checked here: the examples that touch damaged ones are left out, so that all
        hosts number the others alike.

        Raises:
          ValueError: no finished cache, one made from something else (shows the difference), or a damaged one (names
            file and offset).
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
        asked = dict(task_fingerprint or {})
        if vocabulary_fingerprint is not None:
            asked["vocabulary"] = vocabulary_fingerprint
        refuse_other(name, manifest.contents.decides, asked, what_to_do=again)
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
        """The vocabulary's special ids, sentinels, and where words begin."""
        return self.manifest.contents.ids

    @property
    def vocabulary_fingerprint(self) -> str:
        """A hash of what decides the vocabulary's ids."""
        return self.manifest.contents.vocabulary_fingerprint

    @property
    def checksum(self) -> int:
        """Another one for other examples, be it only that some are quarantined; that of the same ones in memory.

        Of a cache that an earlier version wrote it is its own alone.
        """
        content = self.manifest.content
        told = self.manifest.checksum if content is None else content
        return told if self._kept is None else told ^ int(checksum_of(self._kept.tobytes()), 16) << 61

    @property
    def num_quarantined(self) -> int:
        """Examples left out because their bytes are damaged."""
        return self.manifest.num_examples - len(self)

    def __len__(self) -> int:
        return self.manifest.num_examples if self._kept is None else len(self._kept)

    def lengths(self, feature: str) -> np.ndarray:
        """How long a feature is in every example, int64 [examples]; read from the index as it is needed.

        Raises:
          ValueError: no such feature.
        """
        if feature not in self._lengths:
            raise ValueError(
                f"{self.directory} has no feature {feature!r}; it has {', '.join(self._lengths)}"
            )
        return self._lengths[feature] if self._kept is None else self._lengths[feature][self._kept]

    def read(self, numbers: np.ndarray) -> list[dict[str, np.ndarray]]:
        """The examples of these numbers, in this order: read-only arrays in the types they are stored in.

        Raises:
          ValueError: a number is out of range, or bytes are damaged: names file and offset.
        """
        asked = np.asarray(numbers, np.int64).reshape(-1)
        if not len(asked):
            return []
        if asked.min() < 0 or asked.max() >= len(self):
            raise ValueError(
                f"example {int(asked.min() if asked.min() < 0 else asked.max())} is asked for; there are {len(self)}"
            )
        places = asked if self._kept is None else self._kept[asked]
        features = self.manifest.contents.features
        lengths = np.stack([self._lengths[feature.name][places] for feature in features], axis=1)
        records = self._read_records(places)
        self._check(places, records, record_sizes(lengths, features))
        return decode(records, lengths, features)

    def _read_records(self, places: np.ndarray) -> list[bytes]:
        order = np.argsort(places, kind="stable")
        shards = np.searchsorted(self._ends, places[order], side="right")
        edges = np.flatnonzero(np.diff(shards, prepend=-1, append=-1))
        records: list[Any] = [None] * len(places)

        def read(start: int, end: int) -> None:
            shard = int(shards[start])
            first = int(self._ends[shard]) - self.manifest.shards[shard].examples
            inside = (places[order[start:end]] - first).tolist()
            found = self._shards.read(shard, inside)
            for place, record in zip(order[start:end].tolist(), found, strict=True):
                records[place] = record

        groups = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
        if len(groups) == 1 or _num_threads() == 1:
            for group in groups:
                read(*group)
        else:
            list(self._threads().map(lambda group: read(*group), groups))
        return records

    def _check(self, places: np.ndarray, records: list[bytes], sizes: np.ndarray) -> None:
        found = np.fromiter(map(len, records), np.int64, len(records))
        wrong = np.flatnonzero(found != sizes)
        if len(wrong):
            number = int(places[wrong[0]])
            shard = int(np.searchsorted(self._ends, number, side="right"))
            raise_damage(
                self.directory,
                self.manifest.shards[shard],
                f"example {number} has {found[wrong[0]]} bytes, {sizes[wrong[0]]} are expected",
            )

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None or self._process != os.getpid():  # a forked process has no threads yet
            self._pool = ThreadPoolExecutor(_num_threads(), "cache")
            self._process = os.getpid()
        return self._pool

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.directory, self.manifest, self._kept, self._is_damaged)


def _num_threads() -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(8, usable)


def _again(directory: str, manifest: Manifest, kept: np.ndarray | None, is_damaged: bool) -> CachedExamples:
    """The same cache in another process, which needs not be checked again."""
    return CachedExamples(directory, manifest, kept=kept, is_damaged=is_damaged)
