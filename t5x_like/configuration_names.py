"""Names that configuration in a file may use. A gin file and a run's record are data, which may come from others.

A file may name configuration classes of t5x_like (dataclasses and named tuples), functions that are marked with
``config_function``, and everything in modules of users that were trusted by name.
"""

import dataclasses
import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from t5x_like.nested_values import is_record

_OURS = "t5x_like"
_INSTALLED = ("site-packages", "dist-packages")

_trusted_packages: set[str] = set()
_config_functions: set[Callable[..., Any]] = set()

Function = TypeVar("Function", bound=Callable[..., Any])


def config_function(function: Function) -> Function:
    """Mark a function that makes a part of a configuration. It may read files; it writes and starts nothing."""
    _config_functions.add(function)
    return function


def trust_module(name: str) -> None:
    """Let configuration in files name everything in the top-level package of ``name``, as ``--module`` does."""
    _trusted_packages.add(name.split(".")[0])


def is_importable(module: str) -> bool:
    """Return whether configuration in a file may import ``module``: t5x_like's own, and trusted packages."""
    return module.split(".")[0] in {_OURS, *_trusted_packages}


def is_of_program(module: str) -> bool:
    """Return whether ``module`` is a part of the running program: imported, and no installed library's."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or module.split(".")[0] in sys.stdlib_module_names:
        return False
    return not any(folder in Path(file).parts for folder in _INSTALLED)


def is_nameable(target: object) -> bool:
    """Return whether configuration in a file may name a class or function that it found in a module it may import.

    Of t5x_like these are configuration classes and functions marked with ``config_function``. Of a trusted module,
    these are all that its own package defines.
    """
    module = getattr(target, "__module__", None) or ""
    if module.split(".")[0] == _OURS:
        return is_config_class(target) or is_config_function(target)
    return is_importable(module) or is_of_program(module)


def name_of(target: Any) -> str:
    """Return ``module:name`` of a class or function, by which records name it."""
    return f"{target.__module__}:{target.__qualname__}"


def _find_attribute(module: Any, path: str) -> Any:
    """Return the attribute that a dotted ``path`` names in a module; None if there is no such thing."""
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


def find_named(name: str) -> Any:
    """Return the class or function that a record names by ``module:name``. Only modules of users' trust are imported.

    Raises:
      ValueError: Its module is neither t5x_like's nor the user's, it isn't there, or it is no configuration.
    """
    module, _, path = name.partition(":")
    if module.split(".")[0] in sys.stdlib_module_names:
        raise ValueError(f"{name} is not a part of a configuration")
    if not (is_importable(module) or is_of_program(module)):
        raise ValueError(
            f"{name} is not in a module of t5x_like, nor in one of yours that is imported; if you trust it, give "
            f"module={module}, or in Python import it, and call "
            f't5x_like.configuration_names.trust_module("{module}") if it is installed'
        )
    try:
        target = _find_attribute(importlib.import_module(module), path)
    except ImportError as error:
        raise ValueError(f"there is no {name} here") from error
    if target is None:
        moved = "; move it from the script into a module of its own" if module == "__main__" else ""
        raise ValueError(f"there is no {name} here{moved}")
    if not (inspect.isclass(target) or inspect.isfunction(target)):
        raise ValueError(f"{name} is no class or function")
    if name_of(target) != name or not is_nameable(target):
        raise ValueError(f"{name} is not a part of a configuration")
    return target


def is_of_package(target: object) -> bool:
    """Return whether a class or function is one of t5x_like."""
    return target.__module__.split(".")[0] == _OURS


def has_own_name(target: object) -> bool:
    """Return whether a class or function is found under its name, and is not of Python itself."""
    module, _, path = name_of(target).partition(":")
    if module.split(".")[0] in sys.stdlib_module_names:
        return False
    return _find_attribute(sys.modules.get(module), path) is target


def is_call_by_keywords(value: object) -> TypeGuard[functools.partial[Any]]:
    """Return whether a value is a ``functools.partial`` of a function with keywords alone."""
    return isinstance(value, functools.partial) and not value.args


def check_recordable(function: object, what: str) -> None:
    """Check that a run's record can name a function, so that other processes find it.

    Functions of a module can be named, ``functools.partial`` of one with keywords, and dataclasses with ``__call__``.

    Args:
      function: The function.
      what: Name of its role, for the message.

    Raises:
      ValueError: It is a lambda, a function inside a function, or another value without a name.
    """
    target = function
    if is_call_by_keywords(function):
        target = function.func
    elif is_record(function):
        target = type(function)
    if not (inspect.isclass(target) or inspect.isroutine(target)) or not has_own_name(target):
        raise ValueError(
            f"{what} {getattr(target, '__qualname__', repr(target))} can't be recorded, so evaluate and predict "
            "wouldn't find it; give a function or a dataclass that a module has under its own name"
        )


def is_config_class(target: object) -> bool:
    """Return whether ``target`` is a class of dataclasses or named tuples."""
    is_named_tuple = inspect.isclass(target) and issubclass(target, tuple) and hasattr(target, "_fields")
    return is_named_tuple or (inspect.isclass(target) and dataclasses.is_dataclass(target))


def is_config_function(target: object) -> bool:
    """Return whether ``target`` is marked with ``config_function``."""
    return inspect.isfunction(target) and target in _config_functions
