"""Files that are there whole or not at all, whatever happens while they are written."""

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
_NEIGHBOUR = re.compile(r"\.[0-9a-f]{8}$")  # of files.write_bytes
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_partial(name: str) -> bool:
    """Whether a file of this name is what a killed writer left."""
    return name.startswith(".") and (name.endswith(".partial") or _NEIGHBOUR.search(name) is not None)


@contextlib.contextmanager
def partial_file(path: str) -> Iterator[str]:
    """A local path to write to; what is there at the end gets the name ``path``, on a disk or in a bucket.

    Raises:
      ValueError: the disk is full; says which. What was half written is cleared away.
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
def open_whole(path: str) -> Iterator[BinaryIO]:
    """As ``partial_file``, opened."""
    with partial_file(path) as partial, open(partial, "wb") as stream:
        yield stream
        stream.flush()


def disk_full(path: str, error: OSError) -> ValueError:
    """What the user reads where there is no room for ``path``."""
    return ValueError(
        f"{path} can't be written ({(error.strerror or str(error)).lower()}); make room, then start the same command "
        "again: it goes on from what is finished"
    )


def checksum_of_file(path: str) -> tuple[int, str]:
    """Size and crc32c of a file."""
    size, checksum = 0, 0
    with as_path(path).open("rb") as stream:
        while block := stream.read(_BLOCK):
            size += len(block)
            checksum = google_crc32c.extend(checksum, block)
    return size, f"{checksum:08x}"
