"""Settings of a run's own evaluation, of which flags overrule some."""

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any, TypeVar

from t5x_like.inference.generator import GenerationConfig

SettingsT = TypeVar("SettingsT", bound=Any)


def overruled(own: SettingsT, names: Collection[str], template: SettingsT) -> SettingsT:
    """Return a run's own settings with the values of those that flags have set, also where these are the default.

    A search that flags choose, such as one beam, drops the run's settings that only its own search has.

    Args:
      own: Settings of the run.
      names: Fields that flags have set.
      template: Settings with the values that the flags gave.
    """
    changes = {name: getattr(template, name) for name in names}
    return replace(own, **{**_dropped(own, changes), **changes})


def _dropped(own: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """Return defaults in place of decoding settings that have no effect in the search that the changes choose."""
    if not isinstance(own, GenerationConfig):
        return {}
    default = {each.name: each.default for each in fields(GenerationConfig)}
    names: list[str] = []
    if changes.get("num_beams", 1) > 1:
        names.append("temperature")
    if changes.get("temperature", 0) > 0:
        names.append("num_beams")
    search = {name: default[name] for name in names} | changes
    if search.get("num_beams", own.num_beams) == 1:
        names.append("length_penalty_alpha")
    if search.get("temperature", own.temperature) == 0:
        names += ["top_k", "top_p"]
    return {name: default[name] for name in names}
