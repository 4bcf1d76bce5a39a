"""Features of a table's recordings on disk, read in any order; every file has a checksum.

``00000.<feature>.npy`` holds the features of a shard's rows one after another, ``00000.jsonl`` the rows with their
lengths, ``00000.json`` the checksums of both, and ``manifest.json`` the settings of a finished cache.
"""

import functools
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np

from t5x_like.audio.spoken_text import SpokenText
from t5x_like.io.files import PathLike, as_path, read_json, read_jsonl

MANIFEST = "manifest.json"
FORMAT, VERSION = "t5x_like feature cache", 1
REMEDY = "copy it again, or delete the folder and make the cache again"


@dataclass(frozen=True, kw_only=True)
class FeatureShard:
    """Files of a part of the rows.

    Attributes:
      name: Beginning of the names of its files.
      num_rows: Rows with features.
      num_skipped: Recordings that could not be read.
      checksums: CRC-32C of each file but the one that has these fields.
    """

    name: str
    num_rows: int
    num_skipped: int
    checksums: Mapping[str, str]


def checksum_of_file(path: PathLike) -> str:
    """Return the crc32c of a file's content."""
    return f"{google_crc32c.value(as_path(path).read_bytes()):08x}"


def read_shard(folder: PathLike, name: str) -> FeatureShard | None:
    """Return a finished shard; None if it is missing, or its files are not as they were written.

    Args:
      folder: Folder of the cache.
      name: Name of the shard.
    """
    path = as_path(folder) / f"{name}.json"
    if not path.exists():
        return None
    try:
        shard = FeatureShard(name=name, **read_json(path, dict))
    except (ValueError, TypeError):  # damaged
        return None
    files = {file: as_path(folder) / file for file in shard.checksums}
    is_whole = all(
        path.exists() and checksum_of_file(path) == shard.checksums[file] for file, path in files.items()
    )
    return shard if is_whole else None


class FeatureCache:
    """Rows of a finished cache with their features; arrays of local files are mapped into memory.

    Attributes:
      rows: Recordings in the order of their table, without those that could not be read.
      settings: Lines of the settings from which it was made.
      num_skipped: Recordings that could not be read.
    """

    def __init__(self, folder: PathLike) -> None:
        """Open a cache.

        Args:
          folder: Its folder, local or in a bucket.

        Raises:
          ValueError: There is no finished cache, or a file of rows is damaged.
        """
        self._folder = os.fspath(folder)
        manifest = _read_manifest(self._folder)
        self.settings: Mapping[str, str] = manifest["settings"]
        self._shards = [FeatureShard(**shard) for shard in manifest["shards"]]
        self.num_skipped = sum(shard.num_skipped for shard in self._shards)
        self.rows: list[SpokenText] = []
        self._shard_rows: list[tuple[int, int]] = []  # shard and row in it
        self._lengths: dict[str, list[int]] = {name: [] for name in manifest["features"]}
        self._ends: list[dict[str, np.ndarray]] = []
        for shard_index, shard in enumerate(self._shards):
            self._add_rows(shard_index, shard)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row_index: int) -> dict[str, np.ndarray]:
        """Return the features of a row by name.

        Raises:
          ValueError: A file of features is missing or damaged.
        """
        shard_index, row_in_shard = self._shard_rows[row_index]
        features = {}
        for name, ends in self._ends[shard_index].items():
            start = ends[row_in_shard - 1] if row_in_shard else 0
            features[name] = self._array(shard_index, name)[start : ends[row_in_shard]]
        return features

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(self._lengths)

    def lengths(self, name: str) -> Sequence[int]:
        """Return the length of a feature in each row.

        Raises:
          ValueError: The cache has no such feature.
        """
        if name not in self._lengths:
            raise ValueError(f"{self._folder} has no feature {name!r}; it has {', '.join(self._lengths)}")
        return self._lengths[name]

    def _add_rows(self, shard_index: int, shard: FeatureShard) -> None:
        file = f"{shard.name}.jsonl"
        self._check(file, shard)
        lengths: dict[str, list[int]] = {name: [] for name in self._lengths}
        for place, value in enumerate(read_jsonl(as_path(self._folder) / file)):
            of_features = value.pop("lengths")
            self.rows.append(SpokenText(**value))
            self._shard_rows.append((shard_index, place))
            for name in lengths:
                lengths[name].append(of_features[name])
                self._lengths[name].append(of_features[name])
        self._ends.append({name: np.cumsum(each, dtype=np.int64) for name, each in lengths.items()})

    @functools.cache  # noqa: B019 - a cache is opened for a whole run
    def _array(self, shard_index: int, name: str) -> np.ndarray:
        shard = self._shards[shard_index]
        file = f"{shard.name}.{name}.npy"
        self._check(file, shard)
        path = as_path(self._folder) / file
        if "://" in self._folder:
            return np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
        return np.load(os.fspath(path), mmap_mode="r", allow_pickle=False)

    def _check(self, file: str, shard: FeatureShard) -> None:
        path = as_path(self._folder) / file
        if not path.exists():
            raise ValueError(f"{path} is missing; {REMEDY}")
        if checksum_of_file(path) != shard.checksums.get(file):
            raise ValueError(f"{path} is damaged: its checksum is another one; {REMEDY}")


def _read_manifest(folder: str) -> dict[str, Any]:
    path = as_path(folder) / MANIFEST
    if not path.exists():
        raise ValueError(
            f"{folder} is no finished cache of features: it has no {MANIFEST}; make it by cache_features"
        )
    manifest = read_json(path, dict)
    if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        raise ValueError(f"{path} is no manifest of a {FORMAT} of version {VERSION}; make the cache again")
    checksum = manifest.pop("checksum", None)
    if checksum != manifest_checksum(manifest):
        raise ValueError(f"{path} is damaged: its checksum is another one; {REMEDY}")
    return manifest


def manifest_checksum(manifest: Mapping[str, object]) -> str:
    """Return the crc32c of a manifest without its own checksum."""
    return f"{google_crc32c.value(json.dumps(manifest, sort_keys=True).encode()):08x}"
