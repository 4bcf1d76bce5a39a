"""A folder that one process writes at a time."""

import contextlib
import fcntl
import os
from collections.abc import Iterator


@contextlib.contextmanager
def exclusive_writer(folder: str, what: str) -> Iterator[None]:
    """Holds a local folder, which exists, for this process; the system lets it go however the process ends.

    In buckets, and on file systems that know no locks, nothing is held.

    Raises:
      ValueError: another process holds it; says ``what`` it is writing.
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
