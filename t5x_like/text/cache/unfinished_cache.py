"""Continuation of an interrupted cache."""

import logging
from collections.abc import Sequence

from t5x_like.io.files import as_path
from t5x_like.io.fingerprint_check import refuse_other
from t5x_like.io.paths import names_in
from t5x_like.io.progress import Progress
from t5x_like.text.cache.cache_manifest import (
    MANIFEST,
    STARTED,
    STARTS_WORD,
    CacheContents,
    Manifest,
    lengths_name,
    read_checked,
    read_manifest,
    read_started,
    write_started,
)
from t5x_like.text.cache.shards import CacheShard, finished_shard
from t5x_like.text.fields import Feature

_log = logging.getLogger(__name__)

_OTHER = "Choose another output, or delete that folder to make the cache again"


def load_finished_cache(directory: str, contents: CacheContents) -> Manifest | None:
    """Return the manifest of a finished, undamaged cache; a damaged cache becomes an unfinished one.

    Args:
      directory: Folder of the cache.
      contents: Contents that the cache must have.

    Raises:
      ValueError: The cache was made from something else; the message shows the difference.
    """
    if not (as_path(directory) / MANIFEST).exists():
        return None
    manifest = read_manifest(directory)
    refuse_other(directory, manifest.contents.identity, contents.identity, what_to_do=f"{_OTHER}.")
    problem = _problem(directory, manifest)
    if problem is None:
        return manifest
    _log.warning("%s: %s; redoing what is damaged", directory, problem)
    write_started(directory, manifest.contents)
    (as_path(directory) / MANIFEST).unlink()
    return None


def _problem(directory: str, manifest: Manifest) -> str | None:
    for feature, checksum in manifest.lengths_checksums.items():
        try:
            read_checked(directory, lengths_name(feature), checksum)
        except ValueError as error:
            return str(error)
    with Progress(f"checking {directory}", len(manifest.shards), "shards") as progress:
        for index, shard in enumerate(manifest.shards):
            if finished_shard(directory, index, manifest.contents.features) != shard:
                return f"{shard.file} is not as it was written"
            progress.add(1)
    return None


def start_cache(directory: str, contents: CacheContents) -> None:
    """Record the contents of a new cache and remove half-written files of a killed attempt.

    Args:
      directory: Folder of the cache.
      contents: Contents that it will have.

    Raises:
      ValueError: The folder holds the beginning of another cache, or something else.
    """
    started = read_started(directory)
    if started is not None:
        refuse_other(
            directory,
            {**started.identity, "sharding": started.sharding},
            {**contents.identity, "sharding": contents.sharding},
            what_to_do=f"It is unfinished. {_OTHER}.",
        )
    names = names_in(directory)
    foreign = [name for name in names if not name.startswith(".") and name != STARTS_WORD]
    if started is None and foreign:
        raise ValueError(f"{directory} holds other files ({', '.join(foreign[:3])}); choose another output")
    for name in names:
        if name.startswith("."):  # half-written files of a killed writer: this process holds the lock
            (as_path(directory) / name).unlink()
    write_started(directory, contents)


def kept_shards(directory: str, features: Sequence[Feature]) -> list[CacheShard]:
    """Return the finished shards before the first unfinished one; later ones are written again.

    Args:
      directory: Folder of the cache.
      features: Features of a record.
    """
    kept: list[CacheShard] = []
    if not (as_path(directory) / STARTED).exists():
        return kept
    with Progress(f"checking {directory}", None, "shards") as progress:
        while (shard := finished_shard(directory, len(kept), features)) is not None:
            kept.append(shard)
            progress.add(1)
    return kept
