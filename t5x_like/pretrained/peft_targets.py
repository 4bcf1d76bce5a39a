"""Modules that an ``adapter_config.json`` selects, by PEFT's rules.

https://huggingface.co/docs/peft/package_reference/lora
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from t5x_like.nested_values import one_or_several

_ALL_LINEAR = "all-linear"


@dataclass(frozen=True, kw_only=True)
class TargetSelection:
    """Fields that select modules by name.

    Attributes:
      where: Path of the file, for messages.
      target_modules: Ends of names; or a regular expression for whole names.
      exclude_modules: Ends of names, or a regular expression for whole names, of modules that are left out.
      modules_to_save: Regular expressions for parts of names; their modules are trained whole, without an adapter.
      layers_to_transform: Numbers of layers; ``None`` for all.
      layers_pattern: Regular expressions for the name before the number of a layer; none for any name.
    """

    where: str
    target_modules: str | Sequence[str]
    exclude_modules: str | Sequence[str] | None = None
    modules_to_save: Sequence[str] = ()
    layers_to_transform: int | Sequence[int] | None = None
    layers_pattern: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.target_modules, str) and (
            self.layers_to_transform is not None or self.layers_pattern
        ):
            raise ValueError(
                f"{self.where}: layers_to_transform and layers_pattern need a list in target_modules, which is the "
                f"pattern {self.target_modules!r}; write the layers into the pattern"
            )
        patterns: dict[str, Any] = {
            "target_modules": self.target_modules,
            "exclude_modules": self.exclude_modules,
        }
        for name, pattern in patterns.items():
            if isinstance(pattern, str):
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise ValueError(
                        f"{self.where}: {name} is {pattern!r}, no regular expression: {error}"
                    ) from error

    @property
    def is_all_linear(self) -> bool:
        """True if the adapter is on all linear layers but the output layer."""
        return self.target_modules == _ALL_LINEAR

    def __contains__(self, name: str) -> bool:
        """Return whether a module of this name has an adapter."""
        return not self._is_left_out(name) and self._is_target(name)

    def _is_left_out(self, name: str) -> bool:
        if self.exclude_modules and _is_named(name, self.exclude_modules):
            return True
        return any(re.match(rf"(^|.*\.){module}($|\..*)", name) for module in self.modules_to_save)

    def _is_target(self, name: str) -> bool:
        if self.is_all_linear:
            return True
        if not _is_named(name, self.target_modules):
            return False
        layers = self.layers_to_transform
        if layers is None or layers == []:
            return True
        layer = self._layer_of(name)
        return layer is not None and layer in one_or_several(layers)

    def _layer_of(self, name: str) -> int | None:
        """Return the first number in a name, after a part that ``layers_pattern`` matches."""
        if not self.layers_pattern:
            layer = re.match(r".*?\.[^.]*\.(\d+)\.", name)
            return int(layer[1]) if layer else None
        for pattern in one_or_several(self.layers_pattern):
            if layer := re.match(rf"(?:^|.*?\.){pattern}\.(?P<number>\d+)\.", name):
                return int(layer["number"])
        return None


def _is_named(name: str, modules: str | Sequence[str]) -> bool:
    if isinstance(modules, str):
        return re.fullmatch(modules, name) is not None
    return any(f".{name}".endswith(f".{module}") for module in modules)
