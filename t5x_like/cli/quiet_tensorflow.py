"""Keeps TensorFlow's C++ start-up messages, which ignore its log level, off stderr."""

import importlib.abc
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType


def quiet_tensorflow() -> None:
    """Hide stderr while TensorFlow is imported, whenever that happens; shows it if the import fails."""
    if "tensorflow" not in sys.modules and _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


class _QuietFinder(importlib.abc.MetaPathFinder):
    """Finder of TensorFlow that hides stderr while the module is executed."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        sys.meta_path.insert(0, self)  # libraries ask whether it is there before anybody imports it
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def quietly(module: ModuleType) -> None:
                with _stderr_held():
                    execute(module)

            spec.loader.exec_module = quietly  # pyright: ignore[reportAttributeAccessIssue]
        return spec


_FINDER = _QuietFinder()


@contextmanager
def _stderr_held() -> Iterator[None]:
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held:
        sys.stderr.flush()
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(kept, held.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
