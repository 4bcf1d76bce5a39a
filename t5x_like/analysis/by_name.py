"""Analyses by name."""

import importlib
from collections.abc import Mapping

from t5x_like.analysis.analysis import Analysis

# Module and class of each; a module is imported when its analysis is asked for.
ANALYSES: Mapping[str, str] = {
    "anisotropy": "t5x_like.analysis.anisotropy.Anisotropy",
}


def analysis_class(name: str) -> type[Analysis]:
    """Return the class of an analysis.

    Args:
      name: One of ``ANALYSES``, or a class of yours as ``package.module.Class``.

    Raises:
      ValueError: There is no such analysis.
    """
    path = ANALYSES.get(name, name)
    module, _, class_name = path.rpartition(".")
    found = getattr(importlib.import_module(module), class_name, None) if module else None
    if not (isinstance(found, type) and issubclass(found, Analysis)):
        raise ValueError(
            f"there is no analysis {name!r}; there are {', '.join(ANALYSES)}, and classes of yours as "
            "package.module.Class, which derive from t5x_like.analysis.analysis.Analysis"
        )
    return found
