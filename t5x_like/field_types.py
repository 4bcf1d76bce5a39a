"""Type checks of configurations that are built in Python, where nothing else looks at annotations."""

import dataclasses
import functools
import numbers
import types
import typing
from collections.abc import Iterable
from typing import Any, Literal

# Numbers of numpy count as Python's; True and False are no numbers.
_NUMBERS = {int: numbers.Integral, float: numbers.Real}
_WORDS = {int: "an int", float: "a float", bool: "True or False", str: "text", type(None): "None"}


def check_field_types(config: Any, *, ignore: tuple[str, ...] = ()) -> None:
    """Compare every field of a dataclass instance with its annotation.

    Annotations other than numbers, text, literals, classes, tuples and unions of them are not checked.

    Args:
      config: The instance.
      ignore: Fields that are not checked.

    Raises:
      ValueError: A field has another type; it is named, with its value and what is needed.
    """
    hints = _hints(type(config))
    for field in dataclasses.fields(config):
        value, hint = getattr(config, field.name), hints.get(field.name, Any)
        if field.name not in ignore and not _fits(value, hint):
            raise ValueError(
                f"{field.name} is {value!r}, of type {type(value).__name__}; give {_describe(hint)}"
            )


@functools.cache
def _hints(config_class: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(config_class)


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, member) for member in arguments)
    if origin is tuple:
        members = (
            arguments[:1] * len(value) if arguments[-1:] == (...,) and isinstance(value, tuple) else arguments
        )
        return isinstance(value, tuple) and len(value) == len(members) and all(map(_fits, value, members))
    if hint in _NUMBERS:
        return isinstance(value, _NUMBERS[hint]) and not isinstance(value, bool)
    if not isinstance(hint, type) or getattr(hint, "_is_protocol", False) or origin is not None:
        return True
    return isinstance(value, hint)


def _describe(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return _either(map(repr, arguments))
    if origin in (typing.Union, types.UnionType):
        return _either(map(_describe, arguments))
    if origin is tuple:
        return f"a tuple of {_either(_describe(member) for member in arguments if member is not ...)}"
    return _WORDS.get(hint) or f"a {getattr(hint, '__name__', hint)}"


def _either(words: Iterable[str]) -> str:
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} or {last}" if first else last
