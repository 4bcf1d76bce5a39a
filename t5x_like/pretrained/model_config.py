"""``model.json``: which model a run directory's weights belong to."""

import dataclasses
from typing import Any, get_args, get_type_hints

from t5x_like.config_class import dropping_unused, with_present_names
from t5x_like.configuration_names import check_recordable, find_named, is_config_class, is_of_package, name_of
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json, write_json
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.architectures import architecture_named, architecture_of
from t5x_like.nested_values import rebuilt

_MODEL_TYPE = "model_type"
_CLASS = "$class"  # names a class of a user


def write_model_config(directory: PathLike, config: Any) -> None:
    """Write the configuration's ``model_type``, or the name of a user's class, and every field of it.

    Args:
      directory: Folder of the run.
      config: Configuration of the model.

    Raises:
      ValueError: A class of the configuration is inside a function, where no other process finds it.
    """
    architecture_of(config)  # refuses a model of no architecture
    write_json(as_path(directory) / "model.json", _fields_of(config))


def read_model_config(directory: PathLike) -> Any:
    """Read the configuration that ``write_model_config`` wrote. Options without effect are left out, with a warning.

    Raises:
      ValueError: There is no such file, it holds no model that this version knows, or a user's module isn't imported.
    """
    path = as_path(directory) / "model.json"
    if not path.exists():
        raise ValueError(f"{path} is missing: {directory} is not a run directory")
    fields = read_json(path, dict)
    model_type = fields.pop(_MODEL_TYPE, None)
    with refusing_damage(path), dropping_unused(path):
        if _CLASS in fields:
            return _restored(None, fields)
        if architecture_named(model_type) is None:
            raise ValueError(f"{path}: there is no model {model_type!r} in this version")
        return _restored(None, {_MODEL_TYPE: model_type, **fields})


def _fields_of(value: object) -> Any:
    """Return dataclasses as dicts.

    Those that configure a model of an architecture have its ``model_type``, those of users the name of their class.
    """
    if not dataclasses.is_dataclass(value):
        return rebuilt(_fields_of, value)
    fields = {field.name: _fields_of(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if not is_of_package(type(value)):
        check_recordable(value, "the configuration")
        return {_CLASS: name_of(type(value)), **fields}
    if not isinstance(value, ModelConfig):
        return fields
    return {_MODEL_TYPE: architecture_of(value).name, **fields}


def _restored(kind: object, value: object) -> Any:
    """Turn a field's JSON value into a dataclass or tuple again.

    A dataclass is recognized by its ``model_type``, a user's by its class, others by the names of their fields.
    """
    if isinstance(value, list):
        return tuple(_restored(None, item) for item in value)
    if not isinstance(value, dict):
        return value
    architecture = architecture_named(value.get(_MODEL_TYPE))
    owner = _users_class(value[_CLASS]) if _CLASS in value else architecture and architecture.config_class
    if owner is not None:
        hints = get_type_hints(owner)
        fields = {name: item for name, item in value.items() if name not in (_MODEL_TYPE, _CLASS)}
        return owner(**{name: _restored(hints.get(name), item) for name, item in fields.items()})
    for choice in (kind, *get_args(kind)):
        named = with_present_names(choice, value)
        if isinstance(choice, type) and _names(choice) == set(named):
            hints = get_type_hints(choice)
            return choice(**{name: _restored(hints[name], item) for name, item in named.items()})
    return value


def _users_class(name: str) -> type:
    owner = find_named(name)
    if not is_config_class(owner):
        raise ValueError(f"{name} is not a configuration class")
    return owner


def _names(choice: type) -> set[str]:
    return {field.name for field in dataclasses.fields(choice)} if dataclasses.is_dataclass(choice) else set()
