"""Libraries of the package's extras, imported where they are used; a missing one says which extra brings it."""

import importlib
from types import ModuleType


def extra_library(module: str, *, extra: str, needed_by: str) -> ModuleType:
    """Import a library that the core does without.

    Args:
      module: Name of the library's module.
      extra: Extra of this package that installs it.
      needed_by: Subject of the message, which needs the library.

    Raises:
      ValueError: The library isn't installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != module.split(".")[0]:
            raise
        raise ValueError(
            f"{needed_by} needs the library {module}, which isn't installed: pip install 't5x-like[{extra}]'"
        ) from None
