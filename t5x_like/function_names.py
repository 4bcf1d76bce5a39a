"""Names of functions that stay the same in another process, for records that are compared."""

import functools
import inspect
import re
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_MAX_DEPTH = 8  # closures may refer to themselves


def name_function(function: Any, depth: int = 0) -> str:
    """Return the module and name of a function, and the values that it was made with.

    Functions that a library makes, such as optax's schedules, differ in the variables that they close over only.

    >>> name_function(optax.constant_schedule(0.1))
    'optax.schedules._schedule:constant_schedule.<locals>.<lambda>(value=0.1)'

    Args:
      function: Function, method, or ``functools.partial``.
      depth: Number of functions around it.
    """
    if isinstance(function, functools.partial):
        values = dict(enumerate(function.args)) | function.keywords
        return _call(name_function(function.func, depth + 1), values, depth)
    function = inspect.unwrap(function) if hasattr(function, "__wrapped__") else function
    qualified = getattr(function, "__qualname__", None)
    if qualified is None:
        return _ADDRESS.sub("", repr(function))
    name = f"{getattr(function, '__module__', None)}:{qualified}"
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    return _call(name, {name: _contents(cell) for name, cell in zip(names, cells, strict=True)}, depth)


def _call(name: str, values: dict[Any, Any], depth: int) -> str:
    if not values:
        return name
    if depth > _MAX_DEPTH:
        return f"{name}(…)"
    return f"{name}({', '.join(f'{key}={_value(each, depth + 1)}' for key, each in values.items())})"


def _value(value: Any, depth: int) -> str:
    if callable(value) and not inspect.isclass(value):
        return name_function(value, depth)
    if isinstance(value, tuple | list):
        return f"({', '.join(_value(each, depth) for each in value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_value(each, depth)}' for key, each in value.items())}}}"
    if _ADDRESS.search(repr(value)) and depth <= _MAX_DEPTH:  # a class without a repr of its own
        return _call(f"{type(value).__module__}:{type(value).__qualname__}", dict(vars(value)), depth)
    return _ADDRESS.sub("", repr(value))


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has no value yet
        return None
