"""The border to files that somebody else wrote: whatever is wrong with one becomes a message that names it."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

from t5x_like.io.files import PathLike

_NOT_THE_FILES = (OSError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit)


@contextmanager
def refusing_damage(path: PathLike) -> Iterator[None]:
    """Turn errors about the content of a file into a ``ValueError`` that names the file.

    Readers check what they expect. Other values of other types show as any error of theirs or of a library, and that
    is no failure of the program. Libraries in Rust raise panics, which are no ``Exception``.

    Args:
      path: The file that is read in the block.

    Raises:
      ValueError: The file is damaged, or another kind of file.
    """
    try:
        yield
    except _NOT_THE_FILES:
        raise
    except BaseException as error:  # panics
        if isinstance(error, ValueError):
            if PurePath(path).name in str(error):
                raise
            if _is_of_package(error):
                raise ValueError(f"{path}: {error}") from error
        raise ValueError(
            f"{path} is damaged or cut short, or another kind of file ({type(error).__name__}: {error}); fetch it again"
        ) from error


def _is_of_package(error: BaseException) -> bool:
    """Return whether code of t5x_like raised the error, not a library."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").startswith("t5x_like.")
