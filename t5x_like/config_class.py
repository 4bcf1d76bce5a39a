"""Configuration classes: frozen dataclasses that refuse values of a wrong type when they are built."""

import functools
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

from t5x_like.value_types import TypeMismatchError, conform, parameter_types

Config = TypeVar("Config")


class ConfigTypeError(TypeError, ValueError):
    """A field of a configuration was given a value of a wrong type."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def config_class(cls: type[Config]) -> type[Config]:
    """Makes a frozen dataclass with keyword arguments, whose values are checked against the fields' types.

    Values are converted where that is safe: an int to a float, a list to a tuple, a path to text. Checks of
    ``__post_init__`` then see values of the right types.

    >>> @config_class
    ... class Example:
    ...     steps: int
    >>> Example(steps="3")
    Traceback (most recent call last):
    ConfigTypeError: Example.steps needs an int, got '3' (text); drop the quotes

    Raises:
      ConfigTypeError: when an instance is built, and a value has another type.
    """
    made = dataclass(frozen=True, kw_only=True)(cls)
    construct = made.__init__

    @functools.wraps(construct)
    def checked(self: Any, *args: Any, **values: Any) -> None:
        annotations = _field_types(made)
        construct(self, *args, **{name: _fit(made, name, each, annotations) for name, each in values.items()})

    made.__init__ = checked
    return made


def _fit(owner: type, name: str, value: Any, annotations: dict[str, Any]) -> Any:
    try:
        return conform(value, annotations.get(name, Any))
    except TypeMismatchError as mismatch:
        hint = f"; {mismatch.hint}" if mismatch.hint else ""
        raise ConfigTypeError(f"{owner.__name__}.{name} {mismatch}{hint}") from None


@functools.cache
def _field_types(owner: type) -> dict[str, Any]:
    return parameter_types(owner)
