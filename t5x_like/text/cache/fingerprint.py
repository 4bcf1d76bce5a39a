"""Settings that determine a task's tokens, one line each: caches with equal lines hold equal examples.

The objective isn't included, because it is applied to cached tokens.
"""

import functools
import os

import google_crc32c

from t5x_like.io.files import as_path, changed_seconds
from t5x_like.io.paths import find_files
from t5x_like.io.progress import Progress
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.vocabularies.opening import open_tokenizer

_CHUNK_BYTES = 8 * 2**20


def task_fingerprint(task: FileTask[object], split: str, *, with_files: bool = True) -> dict[str, str]:
    """Return the lines of a task's split.

    A cache is compared only by the lines that are given.

    Args:
      task: The task.
      split: Its split.
      with_files: Whether to identify its files, by a checksum of each; False if they are on another machine.

    Raises:
      ValueError: There is no such split, or files are missing.
    """
    if split not in task.files:
        raise ValueError(f"task {task.name!r} has no split {split!r}; there are {', '.join(task.files)}")
    lines = task.fingerprint()
    lines["vocabulary"] = open_tokenizer(task.vocabulary, task.num_sentinels).fingerprint
    return lines | (_of_files(task, split) if with_files else {})


def _of_files(task: FileTask[object], split: str) -> dict[str, str]:
    files = find_files(task.files[split])
    stats = [as_path(file).stat() for file in files]
    lines = {"files": str(len(files))}
    total = sum(stat.length for stat in stats)
    with Progress(f"checksums of {task.name} {split}", total, "bytes") as progress:
        for index, (file, stat) in enumerate(zip(files, stats, strict=True)):
            lines[f"file {index}, bytes"] = str(stat.length)
            lines[f"file {index}, crc32c"] = _checksum(_absolute(file), stat.length, _changed(file))
            progress.add(stat.length)
    return lines


@functools.lru_cache(maxsize=65536)
def _checksum(file: str, size: int, changed: float) -> str:
    del size, changed  # part of the key: a changed file is read again
    checksum = 0
    with as_path(file).open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            checksum = google_crc32c.extend(checksum, chunk)
    return f"{checksum:08x}"


def _changed(file: str) -> float:
    """Return the time of the last change; of local files in nanoseconds."""
    return changed_seconds(file) if "://" in file else os.stat(file).st_mtime_ns


def _absolute(file: str) -> str:
    return file if "://" in file else os.path.abspath(file)
