"""Names of a head's classes in the order of its scores, as Hugging Face's ``id2label`` or a run's file has them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json, write_json
from t5x_like.nested_values import parts_of

_FILE = "classes.json"  # of a run, next to model.json

# What transformers writes where nobody named the classes, and what says no more: LABEL_0, 0.
_NO_NAME = re.compile(r"(label_?)?\d+", re.IGNORECASE)


def write_classes(directory: PathLike, classes: Sequence[str]) -> None:
    """Write the class names of a run's head; nothing if it has none.

    Args:
      directory: Folder of the run.
      classes: Class names in the order of the head's outputs.
    """
    if classes:
        write_json(as_path(directory) / _FILE, {"classes": list(classes)})


def classes_at(directory: PathLike) -> tuple[str, ...]:
    """Read the class names of a run or a Hugging Face directory; empty if they are not named."""
    home = as_path(directory)
    if (home / _FILE).exists():
        with refusing_damage(home / _FILE):
            return tuple(map(str, read_json(home / _FILE, dict)["classes"]))
    if (home / "config.json").exists() and not (home / "model.json").exists():
        with refusing_damage(home / "config.json"):
            return classes_in(read_json(home / "config.json", dict))
    return ()


def classes_in(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that the ``id2label`` (or ``label2id``) of a ``config.json`` names."""
    listed = parts_of(fields.get("id2label")) or {}
    named = {int(index): str(name) for index, name in listed.items()}
    if not named:
        named = {int(index): str(name) for name, index in (fields.get("label2id") or {}).items()}
    names = tuple(named[index] for index in sorted(named))
    if sorted(named) != list(range(len(names))) or all(_NO_NAME.fullmatch(name) for name in names):
        return ()
    return names


def fields_of_classes(classes: Sequence[str]) -> dict[str, object]:
    """``id2label`` and ``label2id`` of a ``config.json``."""
    return {
        "id2label": {str(index): name for index, name in enumerate(classes)},
        "label2id": {name: index for index, name in enumerate(classes)},
    }


def order_by_name(classes: Sequence[str], wanted_classes: Sequence[str]) -> tuple[int, ...] | None:
    """Return the index of each wanted class, or ``None`` if the names differ.

    Args:
      classes: Class names in the order of the head's outputs.
      wanted_classes: The task's class names in the order of class ids.
    """
    indices = {_plain(name): index for index, name in enumerate(classes)}
    wanted = [_plain(name) for name in wanted_classes]
    if (
        len(classes) != len(wanted_classes)
        or set(indices) != set(wanted)
        or len(indices) < len(wanted_classes)
    ):
        return None
    return tuple(indices[name] for name in wanted)


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())
