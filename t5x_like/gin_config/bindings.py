"""The bindings that count once later statements have overruled earlier ones, and what each call sees."""

from dataclasses import dataclass
from typing import Any

from t5x_like.gin_config.gin_names import Names, Target, check_parameter, short_name
from t5x_like.gin_config.gin_syntax import Binding, Macro, Origin, Reference, Sources

Scope = tuple[str, ...]


@dataclass(eq=False)
class Bound:
    """One binding that counts. ``overruled`` had its place before; ``used`` tells whether it was read."""

    scope: str
    target: Target | None  # None for a knob
    parameter: str
    value: Any
    origin: Origin
    file_index: int
    overruled: Origin | None = None
    used: bool = False

    @property
    def path(self) -> str:
        """``t5.T5Config.model_dim``; a knob's bare name."""
        return self.parameter if self.target is None else f"{short_name(self.target)}.{self.parameter}"

    @property
    def name(self) -> str:
        """The path with its scope, as a gin file has it."""
        return f"{self.scope}/{self.path}" if self.scope else self.path


class Bindings:
    """Knobs by name; all others by scope and target.

    Raises:
      Mistake: a name or a parameter that doesn't exist.
    """

    def __init__(self, sources: Sources) -> None:
        self._names = Names(sources.imports)
        self.knobs: dict[str, Bound] = {}
        self.tables: dict[tuple[str, Target], dict[str, Bound]] = {}
        self.replaced: set[tuple[str | None, Target]] = (
            set()
        )  # what a file asked for, until another overruled it
        for block, file_index in sources.blocks:
            self.find(block.name, file_index, block.origin)
        for binding, file_index in sources.bindings:
            self._add(binding, file_index)

    def find(self, name: str, file_index: int, origin: Origin) -> Target:
        """The class or function that ``name`` stands for in that file."""
        return self._names.find(name, file_index, origin)

    def _add(self, binding: Binding, file_index: int) -> None:
        if not binding.parameter:
            name = f"{binding.scope}/{binding.name}" if binding.scope else binding.name
            target, scope, parameter, table = None, "", name, self.knobs
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
        table[parameter] = Bound(
            scope, target, parameter, binding.value, binding.origin, file_index, overruled=overruled
        )

    def applying(self, target: Target, scope: Scope) -> dict[str, Bound]:
        """What a call in ``scope`` sees: also its beginnings', the longest winning. Marks them used."""
        merged: dict[str, Bound] = {}
        for length in range(len(scope) + 1):
            found = self.tables.get(("/".join(scope[:length]), target), {})
            for bound in found.values():
                bound.used = True
            merged |= found
        return merged

    def source_of(self, bound: Bound) -> Bound:
        """Where the value was written: follows knobs that are set to knobs."""
        for _ in self.knobs:
            if isinstance(bound.value, Macro) and bound.value.name in self.knobs:
                bound = self.knobs[bound.value.name]
        return bound

    def targets_in(self, bound: Bound) -> list[Target]:
        """What a binding's value refers to."""
        found = references_in(bound.value)
        return [self.find(reference.name, bound.file_index, bound.origin) for reference in found]

    def all(self) -> list[Bound]:
        """Every binding that counts, knobs first."""
        return [*self.knobs.values(), *(bound for table in self.tables.values() for bound in table.values())]


def references_in(value: Any) -> list[Reference]:
    """The ``@references`` in a value, however deep in tuples, lists and dicts."""
    if isinstance(value, Reference):
        return [value]
    if isinstance(value, dict):
        return [found for pair in value.items() for item in pair for found in references_in(item)]
    return (
        [found for item in value for found in references_in(item)] if isinstance(value, tuple | list) else []
    )
