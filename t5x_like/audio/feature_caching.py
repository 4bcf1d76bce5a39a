"""Making a cache of features: shard by shard, by worker processes, continued where it was stopped."""

import dataclasses
import hashlib
import io
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from t5x_like.audio.feature_cache import (
    FORMAT,
    MANIFEST,
    VERSION,
    FeatureCache,
    FeatureShard,
    checksum_of_file,
    manifest_checksum,
    read_shard,
)
from t5x_like.audio.spoken_text import SpokenText
from t5x_like.io.files import PathLike, as_path, read_json, write_bytes, write_json, write_jsonl
from t5x_like.io.fingerprint_check import refuse_other
from t5x_like.io.progress import Progress
from t5x_like.io.worker_pool import WorkerPool
from t5x_like.io.writer_lock import exclusive_writer

_log = logging.getLogger(__name__)

Features = Mapping[str, np.ndarray]
_STARTED = "started.json"
_SHARD_ROWS = 256
_SHOWN = 3  # bad recordings of a warning


def cache_features(
    rows: Sequence[SpokenText],
    compute: Callable[[str], Features],
    folder: PathLike,
    *,
    settings: Mapping[str, str],
    shard_rows: int = _SHARD_ROWS,
    num_workers: int = 0,
    on_bad: Literal["fail", "skip"] = "fail",
) -> FeatureCache:
    """Write the features of recordings into a folder, or open it where that is done already.

    A cache that was stopped continues after its last whole shard. Shards that were damaged are made again.

    Args:
      rows: Recordings with their texts, as ``read_spoken_texts`` returns them.
      compute: Picklable function from the path of a recording to its features, such as ``SpeechFeatures``.
      folder: Folder of the cache.
      settings: Lines that decide the features, such as ``SpeechFeatures.fingerprint``.
      shard_rows: Rows of a shard.
      num_workers: Worker processes; 0 computes in this process.
      on_bad: "fail" stops at the first recording that can't be read, "skip" leaves it out.

    Raises:
      ValueError: The folder holds something else, another process writes to it, a recording can't be read (under
        ``on_bad="fail"``), or none can.
    """
    if shard_rows < 1:
        raise ValueError(f"shard_rows must be at least 1, not {shard_rows}")
    name = os.fspath(folder)
    with exclusive_writer(name, "cache of features"):
        identity = {
            **settings,
            "recordings": str(len(rows)),
            "content": _digest(rows),
            "rows of a shard": str(shard_rows),
            "bad recordings": on_bad,
        }
        _start(name, identity)
        shards: list[FeatureShard] = []
        names: list[str] = []
        with (
            WorkerPool(
                _Attempt(compute),
                num_workers,
                owner="the cache of features",
                flag="num_workers",
                kept="shards",
            ) as pool,
            Progress(f"features of {name}", len(rows), "recordings") as progress,
        ):
            for start in range(0, len(rows), shard_rows):
                part = rows[start : start + shard_rows]
                shard_name = f"{len(shards):05d}"
                shard = read_shard(name, shard_name) or _write_shard(name, shard_name, part, pool, on_bad)
                names = names or [file.split(".")[1] for file in shard.checksums if file.endswith(".npy")]
                shards.append(shard)
                progress.add(len(part))
        if not names:
            raise ValueError(f"none of {len(rows)} recordings can be read; correct the table, or its files")
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "settings": identity,
            "features": names,
            "shards": [dataclasses.asdict(shard) for shard in shards],
        }
        write_json(as_path(name) / MANIFEST, {**manifest, "checksum": manifest_checksum(manifest)})
        (as_path(name) / _STARTED).unlink(missing_ok=True)
    return FeatureCache(name)


class _Attempt:
    """Function that returns the features of a recording, or the message of its error."""

    def __init__(self, compute: Callable[[str], Features]) -> None:
        self._compute = compute

    def __call__(self, file: str) -> Features | str:
        try:
            return self._compute(file)
        except ValueError as error:
            return str(error)


def _digest(rows: Sequence[SpokenText]) -> str:
    """Return a hash of all texts, columns and files; the folder that holds the files doesn't matter."""
    digest = hashlib.sha256()
    with Progress("checksums of recordings", len(rows), "recordings") as progress:
        for row in rows:
            line = [row.text, dict(row.cells), checksum_of_file(row.audio)]
            digest.update(json.dumps(line, sort_keys=True, default=str).encode() + b"\n")
            progress.add(1)
    return digest.hexdigest()[:16]


def _start(folder: str, identity: Mapping[str, str]) -> None:
    """Record the settings before the first shard is written.

    Raises:
      ValueError: The folder holds a cache with other settings, or other files.
    """
    again = "Choose another folder, or delete that one to make the cache again."
    started, finished = as_path(folder) / _STARTED, as_path(folder) / MANIFEST
    for path in (finished, started):
        if path.exists():
            stored = read_json(path, dict)
            stored = stored.get("settings", {}) if path == finished else stored
            refuse_other(folder, stored, identity, what_to_do=again)
            return
    foreign = sorted(path.name for path in as_path(folder).iterdir() if not path.name.startswith("."))
    if foreign:
        raise ValueError(f"{folder} holds other files ({', '.join(foreign[:_SHOWN])}); choose another folder")
    write_json(started, dict(identity))


def _write_shard(
    folder: str,
    name: str,
    rows: Sequence[SpokenText],
    pool: "WorkerPool[str, Features | str]",
    on_bad: str,
) -> FeatureShard:
    """Write the files of a shard; the one with the checksums comes last."""
    good: list[tuple[SpokenText, Features]] = []
    bad: list[str] = []
    results = pool.in_order([row.audio for row in rows])
    for row, (_, features) in zip(rows, results, strict=True):
        if not isinstance(features, str):
            good.append((row, features))
            continue
        message = f"{row.location}: {features}"
        if on_bad == "fail":
            raise ValueError(message)
        bad.append(message)
    if bad:
        _log.warning("recordings that are left out: %d; %s", len(bad), "; ".join(bad[:_SHOWN]))
    path = as_path(folder)
    files = [f"{name}.jsonl"]
    for feature in good[0][1] if good else ():
        buffer = io.BytesIO()
        np.save(buffer, np.concatenate([features[feature] for _, features in good]))
        write_bytes(path / f"{name}.{feature}.npy", buffer.getvalue())
        files.append(f"{name}.{feature}.npy")
    write_jsonl(path / files[0], [_as_json(row, features) for row, features in good])
    shard = FeatureShard(
        name=name,
        num_rows=len(good),
        num_skipped=len(bad),
        checksums={file: checksum_of_file(path / file) for file in files},
    )
    values = dataclasses.asdict(shard)
    del values["name"]
    write_json(path / f"{name}.json", values)
    return shard


def _as_json(row: SpokenText, features: Features) -> dict[str, object]:
    lengths = {name: len(values) for name, values in features.items()}
    return {**row._asdict(), "cells": dict(row.cells), "lengths": lengths}
