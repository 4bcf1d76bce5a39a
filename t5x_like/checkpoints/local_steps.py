"""Local copies of folders in buckets that Orbax can't reach; they are sent and fetched as a whole."""

import shutil
import tempfile
from pathlib import Path

import jax
from etils import epath

from t5x_like.io.bucket_copies import copy_folder, scheme_of

_SCHEMES_OF_ORBAX = ("", "gs")  # its TensorStore paths know no others (orbax-checkpoint 0.12)


def refuse_several_writers(directory: epath.Path) -> None:
    """Check that Orbax can write to a folder from all processes.

    Args:
      directory: Where steps are saved.

    Raises:
      ValueError: There are several processes, and Orbax can't write to this kind of bucket.
    """
    scheme = scheme_of(directory)
    if scheme not in _SCHEMES_OF_ORBAX and jax.process_count() > 1:
        raise ValueError(
            f"{directory}: {jax.process_count()} processes can't save in {scheme}:// together, because Orbax writes "
            "to shared folders and gs:// only. Mount the bucket as a folder (mountpoint-s3, for instance), give a "
            "shared folder or gs://, or use one process"
        )


class LocalSteps:
    """Local copies of steps in buckets: one to be sent, and the one that was fetched last."""

    def __init__(self) -> None:
        self._to_send: tuple[Path, epath.Path] | None = None
        self._fetched: tuple[Path, epath.Path] | None = None

    def to_write(self, directory: epath.Path) -> epath.Path:
        """Return the folder for Orbax to write to: ``directory``, or a local one that ``send`` copies there."""
        self._drop_unsent()
        if scheme_of(directory) in _SCHEMES_OF_ORBAX:
            return directory
        local = Path(tempfile.mkdtemp(prefix="checkpoint-"))
        self._to_send = (local, directory)
        return epath.Path(local / directory.name)

    def send(self) -> None:
        """Copy what was written to its bucket, and delete it here.

        Raises:
          OSError: A file couldn't be sent.
        """
        if self._to_send is None:
            return
        local, directory = self._to_send
        try:
            copy_folder(epath.Path(local / directory.name), directory)
        finally:
            self._drop_unsent()

    def to_read(self, directory: epath.Path) -> epath.Path:
        """Return the folder for Orbax to read: ``directory``, or a local copy, which is kept until the next one."""
        if scheme_of(directory) in _SCHEMES_OF_ORBAX:
            return directory
        if self._fetched is None or self._fetched[1] != directory:
            self._drop_fetched()
            local = Path(tempfile.mkdtemp(prefix="checkpoint-"))
            self._fetched = (local, directory)
            copy_folder(directory, epath.Path(local / directory.name))
        return epath.Path(self._fetched[0] / directory.name)

    def close(self) -> None:
        """Delete the copies."""
        self._drop_unsent()
        self._drop_fetched()

    def _drop_unsent(self) -> None:
        if self._to_send is not None:
            shutil.rmtree(self._to_send[0], ignore_errors=True)
            self._to_send = None

    def _drop_fetched(self) -> None:
        if self._fetched is not None:
            shutil.rmtree(self._fetched[0], ignore_errors=True)
            self._fetched = None
