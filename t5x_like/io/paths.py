"""Resolution of file names in a configuration: as given, or among the files shipped with the package."""

import glob
import os
from collections.abc import Sequence
from pathlib import PurePosixPath

from t5x_like.io.files import as_path, shipped_directory
from t5x_like.nested_values import one_or_several


def find_file(path: str | os.PathLike[str]) -> str:
    """Return ``path`` if it exists; otherwise, for ``data/…``, the copy shipped with the package.

    Raises:
      ValueError: Neither exists.
    """
    name = os.fspath(path)
    if as_path(name).exists():
        return name
    shipped = _shipped(name)
    if shipped is not None and os.path.exists(shipped):
        return shipped
    raise ValueError(f"{name!r} does not exist (relative paths start at {os.getcwd()})")


def find_files(patterns: str | Sequence[str]) -> list[str]:
    """Return the files of paths or patterns (``data/*.tsv``), sorted within each pattern.

    Raises:
      ValueError: A path does not exist, or a pattern matches nothing.
    """
    files: list[str] = []
    for pattern in one_or_several(patterns):
        name = os.fspath(pattern)
        is_pattern = glob.has_magic(name) and not os.path.exists(name)  # a folder's name may have brackets
        matches = _expand(name) if is_pattern else [find_file(name)]
        if not matches:
            raise ValueError(f"no file matches {name!r} (relative paths start at {os.getcwd()})")
        files.extend(matches)
    if not files:
        raise ValueError("no files given")
    return files


def files_below(folder: str | os.PathLike[str], pattern: str) -> list[str]:
    """Return the files below a folder that match a pattern, sorted; brackets in the folder's name are literal.

    Args:
      folder: A local folder, or a bucket.
      pattern: Such as ``**/*.gin``.
    """
    name = os.fspath(folder)
    anchor = as_path(name if "://" in name else glob.escape(name))
    return sorted(os.fspath(path) for path in anchor.glob(pattern))


def names_in(folder: str | os.PathLike[str]) -> list[str]:
    """Return the names of what lies in a folder, sorted; buckets have no empty folders, and none is an empty one."""
    home = as_path(folder)
    return sorted(path.name for path in home.iterdir()) if home.exists() else []


def _expand(pattern: str) -> list[str]:
    if "://" in pattern:
        anchor, _, rest = pattern.partition("://")
        bucket, _, key = rest.partition("/")
        return sorted(os.fspath(path) for path in as_path(f"{anchor}://{bucket}").glob(key))
    shipped = _shipped(pattern)
    return sorted(glob.glob(pattern)) or sorted(glob.glob(shipped) if shipped else [])


def _shipped(name: str) -> str | None:
    parts = PurePosixPath(name).parts
    if not parts or parts[0] != "data":
        return None
    try:
        return os.path.join(shipped_directory("data"), *parts[1:])
    except FileNotFoundError:
        return None
