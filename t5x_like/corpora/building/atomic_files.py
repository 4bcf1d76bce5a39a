"""Atomic file writes: a file exists completely or not at all, even if its writer is killed."""

import contextlib
import errno
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import google_crc32c

from t5x_like.io.files import as_path

_BLOCK = 1 << 23
_TEMPORARY = re.compile(r"\.[0-9a-f]{8}$")  # names by io.files.write_bytes
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_partial(name: str) -> bool:
    """Return True if a file of this name was left by a killed writer."""
    return name.startswith(".") and (name.endswith(".partial") or _TEMPORARY.search(name) is not None)


@contextlib.contextmanager
def partial_file(path: str) -> Iterator[str]:
    """Yield a local path to write to; at the end, the file is renamed to ``path`` or uploaded to its bucket.

    Raises:
      ValueError: The disk is full. The partial file is removed.
    """
    is_remote = "://" in path
    folder = tempfile.gettempdir() if is_remote else os.path.dirname(path)
    partial = os.path.join(folder, f".{os.path.basename(path)}.{uuid.uuid4().hex[:8]}.partial")
    as_path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        yield partial
        if is_remote:
            with open(partial, "rb") as written, as_path(path).open("wb") as stream:
                shutil.copyfileobj(written, stream, _BLOCK)
        else:
            with open(partial, "rb") as written:
                os.fsync(written.fileno())
            os.replace(partial, path)
    except OSError as error:
        if error.errno in FULL:
            raise disk_full(path, error) from error
        raise
    finally:
        Path(partial).unlink(missing_ok=True)


@contextlib.contextmanager
def open_atomically(path: str) -> Iterator[BinaryIO]:
    """Open a binary file for writing; it appears under ``path`` at the end, see ``partial_file``."""
    with partial_file(path) as partial, open(partial, "wb") as stream:
        yield stream
        stream.flush()


def disk_full(path: str, error: OSError) -> ValueError:
    """Return the error for a path that can't be written.

    Args:
      path: File that can't be written.
      error: The system's reason.
    """
    return ValueError(
        f"{path} can't be written ({(error.strerror or str(error)).lower()}); make room, then start the same command "
        "again: it continues from what is finished"
    )


def checksum_of_file(path: str) -> tuple[int, str]:
    """Return the size and the hexadecimal crc32c of a file."""
    size, checksum = 0, 0
    with as_path(path).open("rb") as stream:
        while block := stream.read(_BLOCK):
            size += len(block)
            checksum = google_crc32c.extend(checksum, block)
    return size, f"{checksum:08x}"
