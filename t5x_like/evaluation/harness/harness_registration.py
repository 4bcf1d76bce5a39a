"""Registration of ``--model t5x_like`` with the lm-evaluation-harness. Imports nothing heavy.

The harness has no entry points (0.4.13), so the model must be added to its registry. ``t5x-like lm_eval`` does so. For
the plain ``lm_eval`` command, a ``.pth`` file can register it in that command's processes only.
"""

import importlib.abc
import importlib.machinery
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "t5x_like"
_TARGET = "t5x_like.evaluation.harness.harness_model:HarnessModel"
_FILE = "t5x_like_lm_eval.pth"
# Python runs lines of .pth files that begin with "import" at its start; argv isn't set yet, orig_argv is.
_LINE = (
    "import sys; exec(\"if any(w in a for a in sys.orig_argv[:4] for w in ('lm_eval', 'lm-eval')): "
    'from t5x_like.evaluation.harness import harness_registration; harness_registration.listen()")\n'
)


def register() -> None:
    """Add the model to the harness' registry; the model's code is imported on first use.

    Raises:
      ValueError: The harness isn't installed.
    """
    try:
        from lm_eval.api.registry import (  # pyright: ignore[reportMissingImports] - optional
            model_registry,
        )
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] != "lm_eval":
            raise
        raise ValueError(
            "the lm-evaluation-harness isn't installed; pip install 'lm-eval>=0.4.13', or t5x-like[harness]"
        ) from error
    if NAME not in model_registry:
        model_registry.register(NAME, target=_TARGET)


def site_file() -> Path:
    """Return the path of the ``.pth`` file in this Python's environment."""
    return Path(sysconfig.get_paths()["purelib"]) / _FILE


def enable() -> Path:
    """Write the ``.pth`` file."""
    site_file().write_text(_LINE)
    return site_file()


def disable() -> Path:
    """Remove the ``.pth`` file."""
    site_file().unlink(missing_ok=True)
    return site_file()


def listen() -> None:
    """Register the model as soon as the harness' own models are imported."""
    sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds ``lm_eval.models`` once with the usual finder, and registers after it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "lm_eval.models":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Loads with the usual loader, then registers."""

    def __init__(self, real: Any):
        self._real = real

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        register()
