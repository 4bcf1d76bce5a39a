"""Bindings in effect after later statements have overridden earlier ones, and those that apply to a call."""

from dataclasses import dataclass
from typing import Any

from t5x_like.deprecated_names import log_successor, successors_of_macros
from t5x_like.gin_config.imported_names import ImportedNames, Target, check_parameter, short_name
from t5x_like.gin_config.plain_values import nested_annotations, plain_value
from t5x_like.gin_config.statements import (
    BindingStatement,
    GinStatements,
    Origin,
    PlainText,
    macro_of,
    macros_in,
    references_in,
)
from t5x_like.gin_config.user_error import UserError, nearest_or_all
from t5x_like.value_types import TypeMismatchError, parameter_types

Scope = tuple[str, ...]


@dataclass(eq=False)
class EffectiveBinding:
    """A binding that no later statement overrides.

    Attributes:
      target: The class or function whose parameter is bound; None for a macro.
      file_index: Index of the file's import table.
      before: The earlier binding that this one replaced.
      used: Whether building the configuration read the binding.
    """

    scope: str
    target: Target | None
    parameter: str
    value: Any
    origin: Origin
    file_index: int
    before: "EffectiveBinding | None" = None
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

    Args:
      sources: Statements in reading order.

    Raises:
      UserError: A name or a parameter doesn't exist, or a plain value is of another type.
    """

    def __init__(self, sources: GinStatements) -> None:
        self._names = ImportedNames(sources.imports)
        self.macros: dict[str, EffectiveBinding] = {}
        self.tables: dict[tuple[str, Target], dict[str, EffectiveBinding]] = {}
        self.keys = sources.keys
        # (file, target) pairs that a file referred to until another file overrode the reference
        self.replaced: set[tuple[str | None, Target]] = set()
        for block, file_index in sources.blocks:
            self.find(block.name, file_index, block.origin)
        read = {name for binding, _ in sources.bindings for name in macros_in(binding.value)}
        self._successors = successors_of_macros(read)
        for binding, file_index in sources.bindings:
            self._add(binding, file_index)
        for bound in self.all():
            if isinstance(bound.value, PlainText):
                bound.value = self._typed(bound, bound.value)

    def find(self, name: str, file_index: int, origin: Origin) -> Target:
        """Return the class or function that ``name`` refers to.

        Args:
          name: Name as written, such as ``t5.T5Config``.
          file_index: Index of the file's import table.
          origin: Place of the name, for messages.

        Raises:
          UserError: The name is unknown or ambiguous.
        """
        return self._names.find(name, file_index, origin)

    def _add(self, binding: BindingStatement, file_index: int) -> None:
        if not binding.parameter:
            successor = None if binding.scope else self._successors.get(binding.name)
            if successor:
                log_successor(f"macro {binding.name} ({binding.origin})", successor)
            name = f"{binding.scope}/{binding.name}" if binding.scope else successor or binding.name
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
            self.replaced |= {(before.origin.file, replaced) for replaced in self.targets_in(before)}
        table[parameter] = EffectiveBinding(
            scope, target, parameter, binding.value, binding.origin, file_index, before
        )

    def _typed(self, bound: EffectiveBinding, plain: PlainText) -> object:
        """Return the value of ``--set``, read by the types of the parameters that take it.

        Raises:
          UserError: The macro is unknown, or the value is of another type.
        """
        before = bound.before
        while before and isinstance(before.value, PlainText):  # given several times
            before = before.before
        annotations = self._annotations_of(bound)
        if bound.target is None and not before and not annotations:
            known = [*self.macros, *(name for each in self.all() for name in macros_in(each.value))]
            hint = nearest_or_all(bound.name, {name for name in known if name != bound.name})
            raise UserError(
                f"there is no macro {bound.name!r}",
                where=str(bound.origin),
                source=bound.origin.source,
                hint=hint,
            )
        try:
            return plain_value(plain, annotations, before and before.value)
        except TypeMismatchError as mismatch:
            hints = [mismatch.hint] if mismatch.hint.startswith(("did you mean", "write")) else []
            hints += [f"{bound.name} is {before.value!r} in {before.origin}"] if before else []
            raise UserError(
                f"{bound.name} {mismatch}",
                where=str(bound.origin),
                source=bound.origin.source,
                hint="\n  ".join(hints),
            ) from mismatch

    def _annotations_of(self, bound: EffectiveBinding, seen: tuple[str, ...] = ()) -> list[object]:
        """Return the types of the parameters that take a binding's value, through other macros too."""
        if bound.target is not None:
            return [parameter_types(bound.target).get(bound.parameter, Any)]
        if bound.name in seen:
            return []
        return [
            annotation
            for user in self.all()
            if bound.name in macros_in(user.value)
            for whole in self._annotations_of(user, (*seen, bound.name))
            for annotation in nested_annotations(user.value, whole, bound.name)
        ]

    def applying(self, target: Target, scope: Scope) -> dict[str, EffectiveBinding]:
        """Return the bindings that a call sees, by parameter, and mark them as used.

        Bindings of the scope's prefixes apply too; those of the longest prefix win.

        Args:
          target: Class or function to call.
          scope: Names of the scopes around the call, outermost first.
        """
        merged: dict[str, EffectiveBinding] = {}
        for length in range(len(scope) + 1):
            bound_values = self.tables.get(("/".join(scope[:length]), target), {})
            for bound in bound_values.values():
                bound.used = True
            merged |= bound_values
        return merged

    def source_of(self, bound: EffectiveBinding) -> EffectiveBinding:
        """Return the binding that holds the literal value: follows macros that are set to macros."""
        for _ in self.macros:
            bound = self.macros.get(macro_of(bound.value), bound)
        return bound

    def targets_in(self, bound: EffectiveBinding) -> list[Target]:
        """Return the classes and functions that a binding's value refers to."""
        references = references_in(bound.value)
        return [self.find(reference.name, bound.file_index, bound.origin) for reference in references]

    def all(self) -> list[EffectiveBinding]:
        """Return every effective binding, macros first."""
        return [*self.macros.values(), *(bound for table in self.tables.values() for bound in table.values())]
