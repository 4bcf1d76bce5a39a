"""Manifest of a finished checkpoint: every file with its length and checksum, written last.

Orbax restores a data file with a flipped bit without an error. The manifest detects that, and truncated, missing or
exchanged files. It names the step and has a checksum of its own. A directory without a manifest is an unfinished save.
"""

import json
import os
import zlib
from collections.abc import Iterator

from etils import epath

from t5x_like.io.files import read_json, write_json

MANIFEST = "manifest.json"

# crc32 rather than crc32c: Orbax's files end in the crc32c of what comes before, which gives them all one and
# the same crc32c. zlib computes the other polynomial at some GB/s.
_CHUNK_BYTES = 8 * 2**20


def write_manifest(directory: epath.Path) -> None:
    """Mark ``directory``, which is named by its step, as finished."""
    files = {name: _fingerprint(path) for name, path in files_of(directory)}
    content = {"step": int(directory.name), "files": files}
    write_json(directory / MANIFEST, content | {"crc32": _checksum(content)})


def write_through(directory: epath.Path) -> None:
    """Wait until all files of ``directory`` are on the disk and would survive a power failure."""
    if "://" in os.fspath(directory):  # buckets acknowledge a file when it is safe
        return
    for folder, _, files in os.walk(directory):
        for name in (*files, "."):
            _sync(os.path.join(folder, name))
    _sync(os.path.dirname(directory))


def is_finished(directory: epath.Path) -> bool:
    """Return True if the save that made ``directory`` was completed."""
    return (directory / MANIFEST).exists()


def problem_in(directory: epath.Path) -> str | None:
    """Read every file once, and return the first problem, or ``None``."""
    if not is_finished(directory):
        return "it is unfinished (the run was stopped while saving)"
    try:
        content = read_json(directory / MANIFEST)
        checksum, expected, step = content.pop("crc32"), content["files"], content["step"]
        if checksum != _checksum(content):
            raise ValueError("the checksum differs")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return f"its {MANIFEST} is damaged, or of an earlier version of t5x_like"
    if directory.name != str(step):
        return f"it is step {step} under another name"
    present = dict(files_of(directory))
    for name, fingerprint in expected.items():
        if name not in present:
            return f"its file {name} is missing"
        actual = _fingerprint(present[name])
        if actual["bytes"] != fingerprint["bytes"]:
            return f"its file {name} has {actual['bytes']} bytes instead of {fingerprint['bytes']}"
        if actual != fingerprint:
            return f"its file {name} is damaged (the checksum differs)"
    return None


def files_of(directory: epath.Path, prefix: str = "") -> Iterator[tuple[str, epath.Path]]:
    """Yield name and path of each file below a step's folder except its manifest, in order of names.

    Args:
      directory: The step's folder, or one in it; local or in a bucket.
      prefix: Begins the names.
    """
    for path in sorted(directory.iterdir(), key=lambda path: path.name):
        if path.is_dir():
            yield from files_of(path, f"{prefix}{path.name}/")
        elif prefix or (path.name != MANIFEST and not path.name.startswith(f".{MANIFEST}.")):
            yield f"{prefix}{path.name}", path


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _checksum(content: dict[str, object]) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def _fingerprint(path: epath.Path) -> dict[str, object]:
    size, checksum = 0, 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
    return {"bytes": size, "crc32": f"{checksum:08x}"}
