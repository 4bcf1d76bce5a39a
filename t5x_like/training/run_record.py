"""The configuration of a run as data: ``experiment.json``, from which the same ``Experiment`` is built again.

``train`` writes it, whether the run was configured in Python or by gin. Classes and functions are named by their
modules. Reading calls configuration classes only, and functions that make configuration: ``configuration_names``
has the rule. It imports nothing but modules of t5x_like and of packages that were trusted by name.
"""

import dataclasses
import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from t5x_like.config_class import dropping_unused, with_present_names
from t5x_like.configuration_names import (
    config_function,
    find_named,
    has_own_name,
    is_call_by_keywords,
    is_config_class,
    is_config_function,
    name_of,
)
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json, write_json
from t5x_like.nested_values import is_plain, json_number, parts_of
from t5x_like.text.seqio_extra import INSTALL, missing_library
from t5x_like.training.earlier_runs import current_name, with_parts
from t5x_like.training.experiment import PARTS, Experiment
from t5x_like.value_types import TypeMismatchError, conform, parameter_types

_FILE = "experiment.json"

# Keys that say which kind of value a JSON object is.
_CLASS, _CALL, _PARTIAL, _REFERENCE = "$class", "$call", "$partial", "$reference"
_ITEMS, _NUMBER, _UNRECORDED = "$items", "$number", "$unrecorded"


def write_experiment(directory: PathLike, experiment: Experiment) -> None:
    """Write ``experiment.json``. Values that can't be written, such as a lambda, are recorded as their ``repr``.

    Args:
      directory: Folder of the run.
      experiment: The experiment.
    """
    write_json(as_path(directory) / _FILE, to_data(experiment))


def unrecorded_fields(experiment: Experiment) -> list[str]:
    """Return the paths of values that ``experiment.json`` can't hold, such as ``optimizer.learning_rate``."""

    def paths(data: object, path: tuple[str, ...]) -> Iterator[str]:
        parts = parts_of(data) or {}
        if _UNRECORDED in parts:
            # Values inside a library's value say less than the field, and the part of the experiment says nothing.
            yield ".".join(path[1:3] if path[0] in PARTS else path[:2])
        for name, part in parts.items():
            yield from paths(part, (*path, str(name)))

    return list(dict.fromkeys(paths(to_data(experiment), ())))


def read_experiment(directory: PathLike, **changes: Any) -> Experiment:
    """Build the configuration of a run, to continue it or to use its parts.

    >>> train(read_experiment("runs/my_t5", total_steps=2000))

    Args:
      directory: Directory of the run.
      **changes: Fields of ``Experiment`` or of its parts with other values, which are not read.

    Raises:
      TypeError: no part has a field of ``changes``.
      ValueError: not a run, or a value that can't be built here; the message says which.
    """
    fields = _fields(directory)
    path, own = as_path(directory) / _FILE, dict(changes)
    with refusing_damage(path), dropping_unused(path):
        values: dict[str, Any] = {}
        for name in fields.keys() - changes.keys():
            if name not in PARTS:
                values[name] = _read(fields, name, directory)
                continue
            owner, part = _find(fields[name][_CLASS]), fields[name]
            inner = {each: own.pop(each) for each in _names_of_fields(owner) & own.keys()}
            kept = [each for each in part if each != _CLASS and each not in inner]
            values[name] = _build(owner, {each: _read(part, each, directory) for each in kept} | inner)
        of_experiment = {name: own.pop(name) for name in _names_of_fields(Experiment) & own.keys()}
        experiment = Experiment(**values, **of_experiment)
    return experiment.with_fields(**own) if own else experiment


def read_recorded(directory: PathLike, name: str) -> Any:
    """Build a single field of a run's ``Experiment`` or of its parts, such as ``tasks``.

    Args:
      directory: Folder of the run.
      name: Name of the field.

    Raises:
      ValueError: not a run, or a value that can't be built here.
    """
    fields = _fields(directory)
    owners = (fields, *(fields[part] for part in PARTS if part in fields))
    return _read(next((each for each in owners if name in each), fields), name, directory)


@config_function
def recorded_value(directory: str, field: str) -> object:
    """Return a value of a run's configuration; for gin files.

    Args:
      directory: Folder of the run.
      field: Path of the value, such as ``train.mixture``.

    Raises:
      ValueError: not a run, there is no such field, or a value that can't be built here.
    """
    name, *parts = field.split(".")
    value = read_recorded(directory, name)
    for part in parts:
        if part not in _names_of_fields(type(value)):
            raise ValueError(f"{as_path(directory) / _FILE} has no {field!r}")
        value = getattr(value, part)
    return value


def to_data(value: object) -> object:
    """Return a configuration as JSON values: dataclasses, functions and classes by name, tuples as lists."""
    if json_number(value) is not value:
        return {_NUMBER: str(value)}
    if is_plain(value):
        return value
    if inspect.isclass(value) or inspect.isroutine(value):
        return {_REFERENCE: name_of(value)} if has_own_name(value) else {_UNRECORDED: repr(value)}
    if is_call_by_keywords(value) and has_own_name(value.func):
        return {_PARTIAL: name_of(value.func), "arguments": to_data(value.keywords)}
    if type(value).__reduce__ is not object.__reduce__:  # it says itself what it is made of
        return _reduced(value)
    if dataclasses.is_dataclass(value):
        if not has_own_name(type(value)):  # a class inside a function
            return {_UNRECORDED: repr(value)}
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return {_CLASS: name_of(type(value)), **{name: to_data(getattr(value, name)) for name in names}}
    value = dict(value) if isinstance(value, Mapping) else value
    parts = parts_of(value)
    if parts is None:
        return {_UNRECORDED: repr(value)}
    names = getattr(value, "_fields", None)
    if names is not None:  # a named tuple
        return {_CLASS: name_of(type(value)), **{name: to_data(getattr(value, name)) for name in names}}
    if parts is not value:
        return [to_data(part) for part in parts.values()]
    if all(type(key) is str and not key.startswith("$") for key in parts):
        return {key: to_data(part) for key, part in parts.items()}
    return {_ITEMS: [[to_data(key), to_data(part)] for key, part in parts.items()]}


def from_data(data: Any) -> Any:
    """Build what ``to_data`` was given; lists become tuples.

    Raises:
      ValueError: a name that can't be imported, isn't allowed here, or a value that was not recorded.
    """
    parts = parts_of(data)
    if parts is None:
        return data
    if parts is not data:
        return tuple(map(from_data, data))
    if _UNRECORDED in data:
        raise ValueError(
            f"it was {data[_UNRECORDED]}, which can't be recorded; use a dataclass, or a function of a module, or "
            "give the value in Python"
        )
    if _ITEMS in data:
        return {from_data(key): from_data(each) for key, each in data[_ITEMS]}
    if _NUMBER in data:
        return float(data[_NUMBER])
    if _REFERENCE in data:
        return _find(data[_REFERENCE])
    if _PARTIAL in data:
        return functools.partial(_find(data[_PARTIAL]), **from_data(data["arguments"]))
    if _CALL in data:
        made_by = _find(data[_CALL])
        if not is_config_function(made_by):
            raise ValueError(f"{data[_CALL]} doesn't make a part of a configuration")
        return made_by(**from_data(data["arguments"]))
    if _CLASS not in data:
        return {key: from_data(each) for key, each in data.items()}
    owner = _find(data[_CLASS])
    if not is_config_class(owner):
        raise ValueError(f"{data[_CLASS]} is not a configuration class")
    values = {name: from_data(each) for name, each in data.items() if name != _CLASS}
    return _build(owner, values)


def _fields(directory: PathLike) -> dict[str, Any]:
    path = as_path(directory) / _FILE
    if not path.exists():
        raise ValueError(
            f"{path} is missing: {directory} is not a run that this version of t5x_like has trained"
        )
    return with_parts({name: value for name, value in read_json(path, dict).items() if name != _CLASS})


def _read(fields: dict[str, object], name: str, directory: PathLike) -> Any:
    try:
        with dropping_unused(as_path(directory) / _FILE):
            return from_data(fields[name])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{as_path(directory) / _FILE}, {name}: {error}") from error


def _reduced(value: Any) -> dict[str, object]:
    made_by, *rest = value.__reduce__()
    if rest == [()] and is_call_by_keywords(made_by) and is_config_function(made_by.func):
        return {_CALL: name_of(made_by.func), "arguments": to_data(made_by.keywords)}
    return {_UNRECORDED: repr(value)}


def _find(name: str) -> Any:
    """Return a class or function by ``module:name``.

    Raises:
      ValueError: its module is neither t5x_like's nor the user's, it isn't there, or it is no configuration.
    """
    name = current_name(name)
    try:
        return find_named(name)
    except ValueError as error:
        cause = error.__cause__
        if library := missing_library(cause):
            raise ValueError(
                f"{error}; its module needs {library}, which isn't installed: {INSTALL}"
            ) from error
        raise


def _names_of_fields(owner: type) -> set[str]:
    return {each.name for each in dataclasses.fields(owner)}


def _build(owner: Any, values: dict[str, object]) -> Any:
    """Build a dataclass, with lists for the fields that want them."""
    annotations, values = parameter_types(owner), with_present_names(owner, values)
    try:
        return owner(**{name: conform(each, annotations.get(name, Any)) for name, each in values.items()})
    except TypeMismatchError as mismatch:
        raise ValueError(f"{name_of(owner)}: {mismatch}") from mismatch
