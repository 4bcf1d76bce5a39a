"""Other values for a configuration that is built already: ``--set RunConfig.total_steps=2000`` for a saved run."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from t5x_like.gin_config.gin_syntax import Override, as_binding
from t5x_like.gin_config.imported_names import short_name
from t5x_like.gin_config.plain_values import plain_value
from t5x_like.gin_config.statements import BindingStatement, PlainText, macros_in, references_in
from t5x_like.gin_config.user_error import UserError, nearest, nearest_or_all
from t5x_like.nested_values import is_record
from t5x_like.training.earlier_runs import moved_field
from t5x_like.value_types import TypeMismatchError, parameter_types


def with_values(config: Any, overrides: Sequence[Override], *, where: str) -> Any:
    """Return a configuration with other values of fields, which ``--set`` and ``--gin.`` name by class.

    A field changes in every instance of its class, as in gin.

    Args:
      config: A tree of dataclasses.
      overrides: ``Class.field`` with a plain value each; later ones win.
      where: The run directory, for messages.

    Raises:
      UserError: There is no such class or field here, or the value is no plain value of its type.
    """
    for override in overrides:
        binding = as_binding(override)
        owner = _owner(config, binding, where)
        value = _value(binding, owner)
        try:
            config = _replaced(config, owner, {binding.parameter: value})
        except (ValueError, TypeError) as error:
            raise _error(binding, f"{short_name(owner)}: {error}") from error
    return config


def _owner(config: Any, binding: BindingStatement, where: str) -> type:
    """Return the class whose field a binding names."""
    owners = dict.fromkeys(_classes(config))
    known = {f"{each.__name__}.{field.name}": each for each in owners for field in dataclasses.fields(each)}
    full = {f"{each.__module__}.{each.__qualname__}": each for each in owners}
    candidates = [each for name, each in full.items() if f".{name}".endswith(f".{binding.name}")]
    if not binding.parameter or binding.scope or len(candidates) != 1:
        name = f"{binding.name}.{binding.parameter}" if binding.parameter else binding.name
        hint = "name a class and its field, such as RunConfig.total_steps. A record has no macros; those of a gin "
        hint += f"file can be set: --gin_file={where}/config.gin"
        raise _error(binding, f"the record of {where} has no {name!r}", nearest(name, known) or hint)
    names = {field.name for field in dataclasses.fields(candidates[0])}
    if binding.parameter not in names:
        hint = _fields_of_record(candidates[0], binding.parameter, known)
        hint = hint or nearest_or_all(binding.parameter, names)
        raise _error(binding, f"{short_name(candidates[0])} has no field {binding.parameter!r}", hint)
    return candidates[0]


def _fields_of_record(owner: type, name: str, known: Collection[str]) -> str:
    """Return a hint that names the record's fields of this name; empty where neither it nor an earlier one has any.

    Args:
      owner: Class that lacks the field.
      name: The field.
      known: All fields of the record, as ``Class.field``.
    """
    moved = moved_field(owner, name)
    new_name = ".".join(moved.split(".")[-2:]) if moved else ""
    fields = [new_name] if new_name in known else [each for each in known if each.endswith(f".{name}")]
    if fields:
        return f"this run has {' and '.join(fields)}"
    return "no part of this run has one" if moved else ""


def _value(binding: BindingStatement, owner: type) -> object:
    value, annotation = binding.value, parameter_types(owner).get(binding.parameter, Any)
    if isinstance(value, PlainText):
        try:
            value = plain_value(value, [annotation], None)
        except TypeMismatchError as mismatch:
            raise _error(
                binding, f"{short_name(owner)}.{binding.parameter} {mismatch}", mismatch.hint
            ) from mismatch
    if references_in(value) or macros_in(value):
        raise _error(
            binding, "a saved run takes plain values only: numbers, text, True, None and tuples of these"
        )
    return value


def _classes(value: object) -> Iterator[type]:
    if _is_config(value):
        yield type(value)
    for part in _parts(value).values():
        yield from _classes(part)


def _replaced(value: Any, owner: type, replacements: Mapping[str, Any]) -> object:
    """Return ``value`` with other fields of every ``owner`` in it; what has none stays the same object."""
    parts = _parts(value)
    changed = {name: _replaced(part, owner, replacements) for name, part in parts.items()}
    changed = {name: part for name, part in changed.items() if part is not parts[name]}
    if type(value) is owner:
        changed |= replacements
    if not changed:
        return value
    if _is_config(value):
        return dataclasses.replace(value, **changed)
    return {**parts, **changed} if parts is value else tuple({**parts, **changed}.values())


def _parts(value: Any) -> dict[Any, Any]:
    """Return the parts of a dataclass, plain tuple or dict by name; none of anything else."""
    if _is_config(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if each.init}
    if type(value) is tuple:
        return dict(enumerate(value))
    return value if type(value) is dict else {}


def _is_config(value: object) -> bool:
    """Return True for a dataclass that is no more than its fields: a benchmark's task is made from others."""
    is_plain = type(value).__reduce__ is object.__reduce__
    return is_plain and is_record(value)


def _error(binding: BindingStatement, message: str, hint: str = "") -> UserError:
    return UserError(message, where=str(binding.origin), source=binding.origin.source, hint=hint)
