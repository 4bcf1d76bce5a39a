"""Settings of a run's own evaluation, of which flags overrule some. Imports no JAX."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeVar

SettingsT = TypeVar("SettingsT", bound=Any)


def overruled(own: SettingsT, names: Collection[str], template: SettingsT) -> SettingsT:
    """Return a run's own settings with the values of those that flags have set, also where these are the default.

    A search that flags choose drops the run's settings that only its own search has; see ``GenerationConfig``.

    Args:
      own: Settings of the run.
      names: Fields that flags have set.
      template: Settings with the values that the flags gave.
    """
    changes = {name: getattr(template, name) for name in names}
    if hasattr(own, "without_effect"):
        changes = own.without_effect(changes) | changes
    return replace(own, **changes)
