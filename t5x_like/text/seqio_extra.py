"""The extra ``seqio``: seqio, TensorFlow and TensorFlow Datasets, which not every installation has."""

import importlib
from types import ModuleType

INSTALL = "pip install 't5x-like[seqio]'"
_LIBRARIES = {
    "seqio": "seqio",
    "tensorflow": "TensorFlow",
    "tensorflow_datasets": "TensorFlow Datasets",
    "tensorflow_text": "TensorFlow Text",
}


def missing_library(error: BaseException | None) -> str:
    """Return the name of the extra's library whose import failed; an empty text for errors of other libraries."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    return _LIBRARIES.get((name or "").split(".")[0], "")


def import_of_extra(module: str, *, needed_by: str) -> ModuleType:
    """Import one of the extra's libraries.

    Args:
      module: Name of the library's module.
      needed_by: Subject of the error message, which needs the library.

    Raises:
      ValueError: The library isn't installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = missing_library(error)
        if not library:
            raise
        raise ValueError(f"{needed_by} needs {library}, which isn't installed: {INSTALL}") from None
