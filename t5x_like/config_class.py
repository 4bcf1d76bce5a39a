"""Configuration classes: frozen dataclasses that refuse values of a wrong type when they are built."""

import functools
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, dataclass_transform

from t5x_like.credentials import holds_password
from t5x_like.nested_values import is_record, parts_of
from t5x_like.value_types import TypeMismatchError, conform, parameter_types

Config = TypeVar("Config")
_CHANGEABLE, _EARLIER_NAME = "changeable", "earlier_name"


class ConfigTypeError(TypeError, ValueError):
    """A field of a configuration was given a value of a wrong type."""


def changeable(**options: Any) -> Any:
    """Declare a field of a configuration that may differ between a run and its continuation.

    Such fields are those of hardware, logging and evaluation. All others decide what is computed.

    Args:
      **options: Those of ``dataclasses.field``.
    """
    return field(metadata={_CHANGEABLE: True}, **options)


def is_changeable(part: Field[object]) -> bool:
    """Return whether a field was declared by ``changeable``."""
    return bool(part.metadata.get(_CHANGEABLE))


def renamed(earlier_name: str, **options: Any) -> Any:
    """Declare a field that had another name in earlier versions, by which records of runs are still read.

    Args:
      earlier_name: Name that records may have.
      **options: Those of ``dataclasses.field``.
    """
    return field(metadata={_EARLIER_NAME: earlier_name}, **options)


def renamed_fields(owner: Any) -> dict[str, str]:
    """Return the present names of a dataclass' fields by their earlier ones; empty for other classes."""
    parts = fields(owner) if is_dataclass(owner) else ()
    return {part.metadata[_EARLIER_NAME]: part.name for part in parts if _EARLIER_NAME in part.metadata}


def with_present_names(owner: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded values by the present names of a dataclass' fields.

    Args:
      owner: The dataclass.
      values: Values by present or earlier name.
    """
    present = renamed_fields(owner)
    return {present.get(name, name): value for name, value in values.items()}


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, changeable, renamed))
def config_class(cls: type[Config]) -> type[Config]:
    """Make a frozen dataclass with keyword arguments, whose values are checked against the fields' types.

    Values are converted where that is safe: an int to a float, a list to a tuple, a path to text. Checks of
    ``__post_init__`` then see values of the right types. Plain dataclasses inside are checked, too.

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
    def checked(self: Any, *args: Any, **values: object) -> None:
        annotations = _field_types(made)
        arguments = {
            name: _fit(f"{made.__name__}.{name}", each, annotations.get(name, Any))
            for name, each in values.items()
        }
        construct(self, *args, **arguments)

    made.__init__ = checked
    _CHECKED.add(made)
    return made


def check_fields(config: Any, path: str) -> None:
    """Check the fields of a dataclass that is no ``config_class``, and of the dataclasses in it.

    Args:
      config: Dataclass, or a sequence of dataclasses.
      path: Name of ``config``, for the message.

    Raises:
      ConfigTypeError: a field has a value of another type.
    """
    for name, each in (parts_of(config) or {}).items():
        check_fields(each, f"{path}.{name}")
    if not is_record(config) or type(config) in _CHECKED:
        return
    annotations = _field_types(type(config))
    for part in fields(config):
        value = getattr(config, part.name)
        _fit(f"{path}.{part.name}", value, annotations.get(part.name, Any))


@contextmanager
def dropping_unused(where: object) -> Iterator[None]:
    """Take fields that ``refuse_unused`` refuses out of configurations that are built in the block, with one warning.

    Records of runs are read so. They hold what had no effect when the run was made, and a trained run stays usable.

    Args:
      where: The record, for the warning.
    """
    dropped: list[str] = []
    token = _DROPPED.set(dropped)
    try:
        yield
    finally:
        _DROPPED.reset(token)
    if dropped:
        listed = ", ".join(dict.fromkeys(dropped))
        warnings.warn(f"{where} has options that had no effect, and are left out: {listed}", stacklevel=3)


def refuse_unused(config: Any, *names: str, because: str, advice: str = "leave it out") -> None:
    """Refuse fields that have another value than their default, where nothing reads them.

    Seeds are exempt: one seed is often given for draws that only some settings make. In ``dropping_unused`` the fields
    get their defaults instead.

    Args:
      config: Dataclass to check.
      names: Fields that have no effect here.
      because: Reason, as a clause.
      advice: Advice, as an imperative.

    Raises:
      ValueError: a field differs from its default.
    """
    dropped = _DROPPED.get()
    for each in fields(config):
        value = getattr(config, each.name)
        if each.name not in names or value == _default_of(each):
            continue
        if dropped is None:
            raise ValueError(f"{each.name}={value!r} has no effect: {because}; {advice}")
        object.__setattr__(config, each.name, _default_of(each))
        dropped.append(f"{type(config).__name__}.{each.name}={value!r}")


def _default_of(part: Field[object]) -> object:
    return part.default if part.default_factory is MISSING else part.default_factory()


# Fields that were left out while a record is read; None elsewhere.
_DROPPED: ContextVar[list[str] | None] = ContextVar("_DROPPED", default=None)

_CHECKED: set[type] = set()  # those that check themselves when they are built


def _fit(path: str, value: object, annotation: object) -> object:
    """Return the value as the field wants it."""
    if holds_password(value):
        raise ConfigTypeError(
            f"{path} is an address with a password, which would be written to the run's directory and to logs; leave "
            "user and password out, and give them as its library says, such as MLFLOW_TRACKING_PASSWORD"
        )
    try:
        value = conform(value, annotation)
    except TypeMismatchError as mismatch:
        hint = f"; {mismatch.hint}" if mismatch.hint else ""
        raise ConfigTypeError(f"{path} {mismatch}{hint}") from None
    check_fields(value, path)
    return value


@functools.cache
def _field_types(owner: type) -> dict[str, object]:
    return parameter_types(owner)
