"""Copies between buckets and this machine, for libraries that read and write local files only."""

import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from etils import epath

from t5x_like.io.files import PathLike, as_path
from t5x_like.io.paths import names_in

_TRANSFERS_AT_ONCE = 8
_BLOCK_BYTES = 2**22


def scheme_of(path: PathLike) -> str:
    """Return the scheme of a bucket's address, "" for a local path."""
    scheme, separator, _ = os.fspath(path).partition("://")
    return scheme if separator else ""


def copy_folder(source: epath.Path, target: epath.Path) -> None:
    """Copy all files below a folder, several at once.

    Args:
      source: Local folder or one in a bucket.
      target: Folder to write to, local or in a bucket; made if it is missing.

    Raises:
      OSError: A file couldn't be copied.
    """
    with ThreadPoolExecutor(_TRANSFERS_AT_ONCE) as pool:
        copies = [pool.submit(_copy_file, file, target / name) for name, file in _files_below(source)]
        for copy in copies:
            copy.result()


@contextmanager
def new_folder(directory: PathLike) -> Iterator[epath.Path]:
    """Yield a folder to write to. At the end it becomes ``directory``, or is sent to its bucket.

    After an error nothing is left of a local one.

    Args:
      directory: Folder that is new or empty.

    Raises:
      ValueError: ``directory`` is not empty.
    """
    target = as_path(directory)
    refuse_filled(target)
    if scheme_of(target):
        with tempfile.TemporaryDirectory(prefix="new-") as temporary:
            yield epath.Path(temporary)
            copy_folder(epath.Path(temporary), target)
        return
    temporary = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}"
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if target.exists():
            target.rmdir()
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def refuse_filled(target: epath.Path) -> None:
    """Check that nothing lies in a folder.

    Raises:
      ValueError: Something does.
    """
    if names_in(target):
        raise ValueError(f"{target} is not empty; nothing was written. Give a new directory")


class LocalFiles:
    """Files of a folder as local ones: those of a bucket are fetched at their first use, and deleted with this object.

    Args:
      folder: Local folder or one in a bucket.
    """

    def __init__(self, folder: epath.Path):
        self._folder = folder
        self._copies = tempfile.mkdtemp(prefix="fetched-") if scheme_of(folder) else None
        if self._copies is not None:
            weakref.finalize(self, shutil.rmtree, self._copies, ignore_errors=True)

    def path(self, name: str) -> epath.Path:
        """Return the path of a file on this machine."""
        if self._copies is None:
            return self._folder / name
        local = epath.Path(self._copies) / name
        if not local.exists():
            _copy_file(self._folder / name, local)
        return local


def _files_below(folder: epath.Path, prefix: str = "") -> Iterator[tuple[str, epath.Path]]:
    for path in folder.iterdir():
        if path.is_dir():
            yield from _files_below(path, f"{prefix}{path.name}/")
        else:
            yield f"{prefix}{path.name}", path


def _copy_file(source: epath.Path, target: epath.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target if scheme_of(target) else Path(f"{target}.{uuid.uuid4().hex[:8]}")
    with source.open("rb") as reader, partial.open("wb") as writer:
        shutil.copyfileobj(reader, writer, _BLOCK_BYTES)
    if partial != target:
        os.replace(partial, target)
