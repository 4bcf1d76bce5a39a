"""``model.json``: which model a run directory's weights belong to."""

import dataclasses
from typing import Any, get_args, get_type_hints

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json, write_json
from t5x_like.model.zoo.architectures import architecture_named, architecture_of


def write_model_config(directory: PathLike, config: Any) -> None:
    """Write the configuration's ``model_type`` and every field of it."""
    fields = {"model_type": architecture_of(config).name, **dataclasses.asdict(config)}
    write_json(as_path(directory) / "model.json", fields)


def read_model_config(directory: PathLike) -> Any:
    """Read the configuration that ``write_model_config`` wrote.

    Raises:
      ValueError: no such file, or not a model that this version knows.
    """
    path = as_path(directory) / "model.json"
    if not path.exists():
        raise ValueError(f"{path} is missing: {directory} is not a run directory")
    fields = read_json(path, dict)
    model_type = fields.pop("model_type", None)
    with refusing_damage(path):
        architecture = architecture_named(model_type)
        if architecture is None:
            raise ValueError(f"{path}: there is no model {model_type!r} in this version")
        config_class = architecture.config_class
        hints = get_type_hints(config_class)
        return config_class(**{name: _restored(hints.get(name), value) for name, value in fields.items()})


def _restored(kind: Any, value: Any) -> Any:
    """Turn a field's JSON value into a dataclass again, recognized by the names of its fields, or into a tuple."""
    if isinstance(value, list):
        return tuple(_restored(None, item) for item in value)
    if not isinstance(value, dict):
        return value
    for choice in (kind, *get_args(kind)):
        if isinstance(choice, type) and _names(choice) == set(value):
            hints = get_type_hints(choice)
            return choice(**{name: _restored(hints[name], item) for name, item in value.items()})
    return value


def _names(choice: type) -> set[str]:
    return {field.name for field in dataclasses.fields(choice)} if dataclasses.is_dataclass(choice) else set()
