"""Values inside of tuples, lists and dicts of any depth, as configurations and JSON have them."""

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard


def is_record(value: Any) -> TypeGuard[Any]:
    """Return whether a value is an instance of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def is_plain(value: Any) -> TypeGuard[bool | int | float | str | None]:
    """Return whether a value is a number, a text or None, as JSON has them."""
    return value is None or isinstance(value, bool | int | float | str)


def parts_of(value: Any) -> dict[Any, Any] | None:
    """Return the parts of a dict by key, of a tuple or list by index; ``None`` for a value without parts.

    Other mappings have none: those of files look these up when they are read.
    """
    if isinstance(value, tuple | list):
        return dict(enumerate(value))
    return value if isinstance(value, dict) else None


def leaves_of(value: Any) -> Iterator[Any]:
    """Yield the values without parts at any depth, keys of dicts included."""
    parts = parts_of(value)
    if parts is None:
        yield value
        return
    for key, part in parts.items():
        if parts is value:
            yield from leaves_of(key)
        yield from leaves_of(part)


def rebuilt(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a tuple, list or dict of the same kind with changed parts; a value without parts as it is.

    Args:
      function: Function of a part, or of a dict's key.
      value: Value of any kind.
    """
    parts = parts_of(value)
    if parts is None:
        return value
    if parts is value:
        return {function(key): function(part) for key, part in parts.items()}
    return type(value)(map(function, value))


def json_number(value: Any) -> Any:
    """Return a value for JSON, which has no NaN and no infinity: these become null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def one_or_several(value: Any) -> tuple[Any, ...]:
    """Return a single value as a tuple of one, several as a tuple of all, and ``None`` as an empty one.

    >>> one_or_several("a"), one_or_several(["a", "b"]), one_or_several(None)
    (('a',), ('a', 'b'), ())
    """
    if value is None:
        return ()
    is_several = isinstance(value, Iterable) and not isinstance(value, str | os.PathLike)
    return tuple(value) if is_several else (value,)
