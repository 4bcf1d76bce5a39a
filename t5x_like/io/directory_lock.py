"""Locks of folders that one process writes at a time."""

import contextlib
import fcntl
import os
from collections.abc import Iterator


@contextlib.contextmanager
def exclusive_writer(folder: str, what: str) -> Iterator[None]:
    """Locks a folder for this process; the system releases the lock however the process ends.

    Buckets, and file systems without locks, are not locked.

    Args:
      folder: An existing folder, local or in a bucket.
      what: Name of what is written there, for the message.

    Raises:
      ValueError: Another process writes to the folder.
    """
    if "://" in folder:
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"another process is writing the {what} {folder}; wait for it") from error
        except OSError:  # no locks here
            pass
        yield
    finally:
        os.close(held)
