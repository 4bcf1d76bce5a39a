"""The manifest of a token cache: its contents, its source, and checksums of all files."""

import dataclasses
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from t5x_like.io.files import as_path, read_json, write_bytes, write_json
from t5x_like.text.cache.content import ContentChecksum
from t5x_like.text.cache.shards import CacheShard, checksum_of
from t5x_like.text.fields import Feature
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

MANIFEST = "manifest.json"
STARTED = "started.json"  # contents of an unfinished cache
STARTS_WORD = "starts_word.npy"
VERSION = 2
_READABLE = (1, 2)  # 1 lacks the shards' ``content``
_REMEDY = "copy it again, or delete the folder and make the cache again"

Fingerprint = Mapping[str, str]  # settings that determine the tokens, one line each


@dataclass(frozen=True, kw_only=True)
class CacheContents:
    """The contents of a cache, known before the first example is written.

    Attributes:
      task: Name of the task.
      split: Name of the split.
      features: The arrays of each example.
      fingerprint: Settings that determine the tokens, one line each.
      vocabulary_fingerprint: Hash of the vocabulary.
      ids: Special ids of the vocabulary.
      remaining_steps: Steps of a seqio pipeline that the cached examples still need.
      sharding: Description of the division of examples into shards.
    """

    task: str
    split: str
    features: tuple[Feature, ...]
    fingerprint: Fingerprint
    vocabulary_fingerprint: str
    ids: VocabularyIds
    remaining_steps: tuple[str, ...] = ()
    sharding: str = ""

    def as_json(self) -> dict[str, object]:
        """Return JSON for everything except ``ids.starts_word``, which has a file of its own."""
        starts_word = self.ids.starts_word
        ids = {
            "vocab_size": self.ids.vocab_size,
            **{"unknown" if role == "unk" else role: token_id for role, token_id in self.ids.by_role.items()},
            "first_sentinel": self.ids.first_sentinel,
            "num_sentinels": self.ids.num_sentinels,
            "starts_word": None if starts_word is None else checksum_of(array_bytes(starts_word)),
        }
        return {
            "format": "t5x_like token cache",
            "version": VERSION,
            "task": self.task,
            "split": self.split,
            "features": [dataclasses.asdict(feature) for feature in self.features],
            "fingerprint": dict(self.fingerprint),
            "vocabulary_fingerprint": self.vocabulary_fingerprint,
            "ids": ids,
            "remaining_steps": list(self.remaining_steps),
            "cut": self.sharding,
        }

    @property
    def identity(self) -> dict[str, str]:
        """Fingerprint and all other settings that must be equal to continue an unfinished cache."""
        features = ", ".join(f"{feature.name} {feature.dtype}" for feature in self.features)
        return {**self.fingerprint, "vocabulary": self.vocabulary_fingerprint, "features": features}


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The manifest of a finished cache.

    Attributes:
      contents: Contents of the cache.
      shards: Its shards in order.
      num_tokens: Tokens by feature.
      lengths_checksums: Checksums of the files of lengths, by feature.
      num_skipped: Rows of the source that could not be used.
      checksum: Checksum of the manifest itself.
    """

    contents: CacheContents
    shards: tuple[CacheShard, ...]
    num_tokens: Mapping[str, int]
    lengths_checksums: Mapping[str, str]
    num_skipped: int = 0
    checksum: int = field(default=0, compare=False)

    @property
    def num_examples(self) -> int:
        """Number of examples of all shards."""
        return sum(shard.examples for shard in self.shards)

    @property
    def content(self) -> int | None:
        """Checksum of the examples and their order; None if an earlier version wrote one of the shards."""
        content = ContentChecksum()
        for shard in self.shards:
            if shard.content is None:
                return None
            num_sequences = shard.examples * len(self.contents.features)
            content = content.followed_by(ContentChecksum(shard.content, num_sequences))
        return content.value


def lengths_name(feature: str) -> str:
    """Return the name of the file that holds the lengths of a feature, int64 [examples]."""
    return f"lengths.{feature}.npy"


def write_started(directory: str, contents: CacheContents) -> None:
    """Record the contents of an unfinished cache, before any shard exists.

    Args:
      directory: Folder of the cache.
      contents: Contents that the cache will have.
    """
    if contents.ids.starts_word is not None:
        write_bytes(as_path(directory) / STARTS_WORD, array_bytes(contents.ids.starts_word))
    write_json(as_path(directory) / STARTED, contents.as_json())


def read_started(directory: str) -> CacheContents | None:
    """Return the contents of an unfinished cache, or None if none was started."""
    path = as_path(directory) / STARTED
    return _contents(directory, read_json(path)) if path.exists() else None


def write_manifest(directory: str, manifest: Manifest) -> None:
    """Write the manifest, which marks the cache as finished.

    Args:
      directory: Folder of the cache.
      manifest: Contents and shards of the cache.
    """
    value = {
        **manifest.contents.as_json(),
        "num_examples": manifest.num_examples,
        "num_tokens": dict(manifest.num_tokens),
        "num_skipped": manifest.num_skipped,
        "lengths": dict(manifest.lengths_checksums),
        "shards": [dataclasses.asdict(shard) for shard in manifest.shards],
    }
    write_json(as_path(directory) / MANIFEST, {**value, "checksum": _checksum(value)})
    (as_path(directory) / STARTED).unlink(missing_ok=True)


def read_manifest(directory: str) -> Manifest:
    """Read the manifest of a finished cache.

    Raises:
      ValueError: There is none, it is damaged, or a later version wrote it.
    """
    path = as_path(directory) / MANIFEST
    if not path.exists():
        reason = _why_absent(directory)
        raise ValueError(f"{directory} is no finished token cache: {reason}")
    try:
        value = read_json(path)
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); {_REMEDY}") from None
    if not isinstance(value, dict) or value.get("format") != "t5x_like token cache":
        raise ValueError(f"{path} is not the manifest of a token cache")
    if value.get("version") not in _READABLE:
        raise ValueError(
            f"{path} has version {value.get('version')}, this t5x-like reads up to {VERSION}; make the cache again"
        )
    checksum = value.pop("checksum", None)
    if checksum != _checksum(value):
        raise ValueError(
            f"{path} is damaged: its checksum is {checksum}, its contents give {_checksum(value)}; {_REMEDY}"
        )
    return Manifest(
        contents=_contents(directory, value),
        shards=tuple(CacheShard(**shard) for shard in value["shards"]),
        num_tokens=value["num_tokens"],
        lengths_checksums=value["lengths"],
        num_skipped=value["num_skipped"],
        checksum=int(checksum, 16),
    )


def _contents(directory: str, value: Mapping[str, Any]) -> CacheContents:
    ids = dict(value["ids"])
    ids["unk"] = ids.pop("unknown")
    if ids["starts_word"] is not None:
        ids["starts_word"] = read_array(directory, STARTS_WORD, ids["starts_word"])
    return CacheContents(
        task=value["task"],
        split=value["split"],
        features=tuple(Feature(**feature) for feature in value["features"]),
        fingerprint=value["fingerprint"],
        vocabulary_fingerprint=value["vocabulary_fingerprint"],
        ids=VocabularyIds(**ids),
        remaining_steps=tuple(value["remaining_steps"]),
        sharding=value["cut"],
    )


def read_array(directory: str, name: str, checksum: str) -> np.ndarray:
    """Read a small array of the cache.

    Args:
      directory: Folder of the cache.
      name: Name of the ``.npy`` file.
      checksum: Expected crc32c.

    Raises:
      ValueError: The file is missing or damaged.
    """
    return np.load(io.BytesIO(read_checked(directory, name, checksum)), allow_pickle=False)


def read_checked(directory: str, name: str, checksum: str) -> bytes:
    """Read a file of the cache.

    Args:
      directory: Folder of the cache.
      name: Name of the file.
      checksum: Expected crc32c.

    Raises:
      ValueError: The file is missing or damaged.
    """
    path = as_path(directory) / name
    if not path.exists():
        raise ValueError(f"{path} is missing; {REPAIR}")
    content = path.read_bytes()
    if checksum_of(content) != checksum:
        raise ValueError(
            f"{path} is damaged ({len(content)} bytes with crc32c {checksum_of(content)}, {checksum} is expected); "
            f"{REPAIR}"
        )
    return content


REPAIR = (
    "copy it again, or run the t5x-like cache command that made the cache again: it redoes what is damaged"
)


def _why_absent(directory: str) -> str:
    folder = as_path(directory)
    if (folder / STARTED).exists():
        return (
            "it was never finished; run the same t5x-like cache command again, it continues where it stopped"
        )
    if not folder.exists():
        return "there is no such folder; make one with t5x-like cache"
    inner = sorted(path.parent.relative_to(folder) for path in folder.glob(f"*/{MANIFEST}"))
    inner += sorted(path.parent.relative_to(folder) for path in folder.glob(f"*/*/{MANIFEST}"))
    if inner:
        return f"it has no {MANIFEST}; there are caches inside: {', '.join(map(str, inner))}"
    return f"it has no {MANIFEST}"


def _checksum(value: Mapping[str, object]) -> str:
    return checksum_of(json.dumps(value, sort_keys=True, ensure_ascii=False).encode())


def array_bytes(array: np.ndarray) -> bytes:
    """Return an array as the bytes of an ``.npy`` file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()
