"""Bindings in effect after later statements have overridden earlier ones, and those that apply to a call."""

from dataclasses import dataclass
from typing import Any

from t5x_like.gin_config.imported_names import ImportedNames, Target, check_parameter, short_name
from t5x_like.gin_config.statements import (
    BindingStatement,
    ConfigurableReference,
    GinStatements,
    MacroReference,
    Origin,
)

Scope = tuple[str, ...]


@dataclass(eq=False)
class EffectiveBinding:
    """A binding that no later statement overrides.

    Attributes:
      target: The class or function whose parameter is bound; None for a macro.
      file_index: Index of the file's import table.
      overruled: Origin of the earlier binding that this one replaced.
      used: Whether building the configuration read the binding.
    """

    scope: str
    target: Target | None
    parameter: str
    value: Any
    origin: Origin
    file_index: int
    overruled: Origin | None = None
    used: bool = False

    @property
    def path(self) -> str:
        """``t5.T5Config.model_dim``, or a macro's bare name."""
        return self.parameter if self.target is None else f"{short_name(self.target)}.{self.parameter}"

    @property
    def name(self) -> str:
        """Path with its scope, as written in a gin file."""
        return f"{self.scope}/{self.path}" if self.scope else self.path


class Bindings:
    """Effective bindings: macros by name, all others by scope and target.

    Raises:
      UserError: A name or a parameter doesn't exist.
    """

    def __init__(self, sources: GinStatements) -> None:
        self._names = ImportedNames(sources.imports)
        self.macros: dict[str, EffectiveBinding] = {}
        self.tables: dict[tuple[str, Target], dict[str, EffectiveBinding]] = {}
        # (file, target) pairs that a file referred to until another file overrode the reference
        self.replaced: set[tuple[str | None, Target]] = set()
        for block, file_index in sources.blocks:
            self.find(block.name, file_index, block.origin)
        for binding, file_index in sources.bindings:
            self._add(binding, file_index)

    def find(self, name: str, file_index: int, origin: Origin) -> Target:
        """Returns the class or function that ``name`` refers to in that file."""
        return self._names.find(name, file_index, origin)

    def _add(self, binding: BindingStatement, file_index: int) -> None:
        if not binding.parameter:
            name = f"{binding.scope}/{binding.name}" if binding.scope else binding.name
            target, scope, parameter, table = None, "", name, self.macros
        else:
            target = self.find(binding.name, file_index, binding.origin)
            scope, parameter = binding.scope, binding.parameter
            check_parameter(target, parameter, binding.origin)
            table = self.tables.setdefault((scope, target), {})
        for reference in references_in(binding.value):
            self.find(reference.name, file_index, binding.origin)
        before = table.get(parameter)
        if before is not None:
            self.replaced |= {(before.origin.file, asked_for) for asked_for in self.targets_in(before)}
        overruled = before and before.origin
        table[parameter] = EffectiveBinding(
            scope, target, parameter, binding.value, binding.origin, file_index, overruled=overruled
        )

    def applying(self, target: Target, scope: Scope) -> dict[str, EffectiveBinding]:
        """Returns the bindings that a call in ``scope`` sees, by parameter, and marks them used.

        Bindings of the scope's prefixes apply too; those of the longest prefix win.
        """
        merged: dict[str, EffectiveBinding] = {}
        for length in range(len(scope) + 1):
            found = self.tables.get(("/".join(scope[:length]), target), {})
            for bound in found.values():
                bound.used = True
            merged |= found
        return merged

    def source_of(self, bound: EffectiveBinding) -> EffectiveBinding:
        """Returns the binding that holds the literal value: follows macros that are set to macros."""
        for _ in self.macros:
            if isinstance(bound.value, MacroReference) and bound.value.name in self.macros:
                bound = self.macros[bound.value.name]
        return bound

    def targets_in(self, bound: EffectiveBinding) -> list[Target]:
        """Returns the classes and functions that a binding's value refers to."""
        found = references_in(bound.value)
        return [self.find(reference.name, bound.file_index, bound.origin) for reference in found]

    def all(self) -> list[EffectiveBinding]:
        """Returns every effective binding, macros first."""
        return [*self.macros.values(), *(bound for table in self.tables.values() for bound in table.values())]


def references_in(value: Any) -> list[ConfigurableReference]:
    """Returns the ``@references`` in a value, at any depth of tuples, lists and dicts."""
    if isinstance(value, ConfigurableReference):
        return [value]
    if isinstance(value, dict):
        return [found for pair in value.items() for item in pair for found in references_in(item)]
    return (
        [found for item in value for found in references_in(item)] if isinstance(value, tuple | list) else []
    )
