"""The meaning of gin's statements: scopes, knobs and references, evaluated by gin's rules into plain values.

A reference with a scope replaces the active scope; a macro (we say knob) is evaluated in a scope of its name.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

from t5x_like.gin_config import config_errors
from t5x_like.gin_config.bindings import Bindings, Bound, Scope
from t5x_like.gin_config.gin_names import Target, parameters_of, short_name
from t5x_like.gin_config.gin_syntax import REQUIRED, Macro, Reference
from t5x_like.gin_config.user_error import Mistake, nearest
from t5x_like.gin_config.value_types import Misfit, conform, parameter_types


class Resolved(NamedTuple):
    """One parameter of what was built: its value and where it came from."""

    name: str
    value: Any
    origin: str


class Resolver:
    """Builds values from ``bindings``; ``called`` lists what was called, each with the defaults it used."""

    def __init__(self, bindings: Bindings) -> None:
        self.bindings = bindings
        self.called: dict[Target, dict[str, Any]] = {}
        self.resolved: list[Resolved] = []
        self._still_to_give: list[tuple[Bound, Any]] = []
        self._knobs_open: list[str] = []

    def build_root(self, roots: Sequence[Target | str], verbs: Mapping[str, str]) -> Any:
        """Calls the first root that anything is bound to; ``verbs`` says which command is for which other root.

        Raises:
          Mistake: nothing is bound to any; a knob that nobody gave; a flag that has no effect.
        """
        configured = next(filter(None, (self._configured_root(root) for root in roots)), None)
        if configured is None:
            wanted = " or ".join(_shortened(root) for root in roots)
            others = (
                f"t5x-like {verb} is for these files"
                for root, verb in verbs.items()
                if self._configured_root(root)
            )
            raise Mistake(
                f"the gin files say nothing about {wanted}, so there is nothing to run", hint=next(others, "")
            )
        value = self._given(self._call(configured, (), None))
        for bound in self.bindings.all():
            if bound.origin.file is None and not bound.used:
                raise config_errors.without_effect(bound, self.bindings)
        return value

    def _configured_root(self, root: Target | str) -> Target | None:
        """The class or function if anything is bound to it; a name need not be imported to know."""
        targets = (target for _, target in self.bindings.tables)
        return next(
            (each for each in targets if root in (each, f"{each.__module__}.{each.__qualname__}")), None
        )

    def build_knob(self, name: str) -> Any:
        """The value of a knob, as ``%name`` has it."""
        knob = self.bindings.knobs[name]
        return self._given(self._evaluate_knob(Macro(name), knob, Any))

    def build_parameter(self, root: Target | str, parameter: str, knob: str) -> Any:
        """What is bound to one parameter of ``root``."""
        target = self._configured_root(root)
        bound = self.bindings.applying(target, ()).get(parameter) if target else None
        if target is None or bound is None:
            raise Mistake(f"the gin files define neither {_shortened(root)}.{parameter} nor {knob}")
        annotation = parameter_types(target).get(parameter, Any)
        return self._conform(
            self._given(self._evaluate(bound.value, (), bound, annotation)), annotation, bound
        )

    def _given(self, value: Any) -> Any:
        if self._still_to_give:
            raise config_errors.still_to_give(self._still_to_give)
        return value

    def unused(self) -> list[str]:
        """Bindings in files that nothing reads, as lines to show; a knob only if it looks like a misspelt one.

        Shared files set knobs that not every run needs, so an idle knob is nothing to speak of; nor is what a file says
        of a thing that it asks for itself and that another file replaced.
        """
        replaced = self._replaced()
        known = [knob.name for knob in self.bindings.knobs.values() if knob.used]
        lines = []
        for bound in self.bindings.all():
            hint = nearest(bound.name, known) if bound.target is None else ""
            if (bound.origin.file, bound.target) in replaced:
                continue
            if not bound.used and (hint or bound.target):
                lines.append(f"{bound.origin}: {bound.name} has no effect" + (f"; {hint}" if hint else ""))
        return lines

    def _replaced(self) -> set[tuple[str | None, Target]]:
        """What files asked for and did not get, with what that would have asked for in turn."""
        found, new = set(), self.bindings.replaced
        while new:
            found |= new
            idle = [bound for bound in self.bindings.all() if (bound.origin.file, bound.target) in new]
            new = {
                (bound.origin.file, each) for bound in idle for each in self.bindings.targets_in(bound)
            } - found
        return {(file, target) for file, target in found if target not in self.called}

    def _call(self, target: Target, scope: Scope, asked_by: Bound | None) -> Any:
        bounds, arguments = self.bindings.applying(target, scope), self._configured(target, scope)
        fixed = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        free = {
            name: parameter
            for name, parameter in parameters_of(target).items()
            if name not in bounds and parameter.kind not in fixed
        }
        unbound = [name for name, parameter in free.items() if parameter.default is Parameter.empty]
        if unbound:
            raise config_errors.unbound(target, unbound, bounds, asked_by)
        for name, parameter in free.items():
            default = self.called[target][name] = _default(target, name, parameter)
            self._record(scope, f"{short_name(target)}.{name}", default, "default")
        if _is_missing(arguments):
            return REQUIRED
        try:
            return target(**arguments)
        except Mistake:
            raise
        except (ValueError, TypeError) as error:
            raise config_errors.refused(error, target, bounds, asked_by, self.bindings) from error

    def _configured(self, target: Target, scope: Scope) -> dict[str, Any]:
        """The arguments that are bound, evaluated and checked, in the order of the signature."""
        self.called.setdefault(target, {})
        annotations, bounds = parameter_types(target), self.bindings.applying(target, scope)
        order = list(parameters_of(target))
        arguments = {}
        for name in sorted(bounds, key=lambda name: order.index(name) if name in order else len(order)):
            bound, annotation = bounds[name], annotations.get(name, Any)
            value = self._evaluate(bound.value, scope, bound, annotation)
            arguments[name] = value if _is_missing(value) else self._conform(value, annotation, bound)
            self._record(scope, bound.path, arguments[name], config_errors.origin_of(bound, self.bindings))
        return arguments

    def _record(self, scope: Scope, path: str, value: Any, origin: str) -> None:
        self.resolved.append(Resolved("/".join((*scope, path)), value, origin))

    def _evaluate(self, value: Any, scope: Scope, bound: Bound, annotation: Any = Any) -> Any:
        if value is REQUIRED:
            self._still_to_give.append((bound, annotation))
            return REQUIRED
        if isinstance(value, Macro):
            return self._evaluate_knob(value, bound, annotation)
        if isinstance(value, Reference):
            target = self.bindings.find(value.name, bound.file_index, bound.origin)
            inner = value.scopes or scope
            return self._call(target, inner, bound) if value.call else self._function(target, inner)
        if isinstance(value, tuple | list):
            return type(value)(self._evaluate(item, scope, bound) for item in value)
        if isinstance(value, dict):
            pairs = value.items()
            return {self._evaluate(k, scope, bound): self._evaluate(v, scope, bound) for k, v in pairs}
        return value

    def _evaluate_knob(self, macro: Macro, user: Bound, annotation: Any) -> Any:
        if macro.name not in self.bindings.knobs:
            raise config_errors.undefined_knob(macro.name, user, self.bindings)
        if macro.name in self._knobs_open:
            raise config_errors.circle([*self._knobs_open, macro.name], user)
        knob = self.bindings.knobs[macro.name]
        knob.used = True
        self._knobs_open.append(macro.name)
        try:
            return self._evaluate(knob.value, tuple(macro.name.split("/")), knob, annotation)
        finally:
            self._knobs_open.pop()

    def _function(self, target: Target, scope: Scope) -> Callable[..., Any]:
        """``@name`` without brackets: the thing itself, with what is bound to it already given."""
        arguments = self._configured(target, scope)
        return functools.partial(target, **arguments) if arguments else target

    def _conform(self, value: Any, annotation: Any, bound: Bound) -> Any:
        try:
            return conform(value, annotation)
        except Misfit as misfit:
            raise config_errors.about(bound, f"{bound.path} {misfit}", self.bindings, misfit.hint) from misfit


def _shortened(root: Target | str) -> str:
    return ".".join(root.split(".")[-2:]) if isinstance(root, str) else short_name(root)


def _is_missing(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_is_missing(item) for item in value.values())
    return any(_is_missing(item) for item in value) if isinstance(value, tuple | list) else value is REQUIRED


def _default(target: Target, name: str, parameter: Parameter) -> Any:
    """The default as a value: a dataclass's default factory is called to see what it makes."""
    fields = getattr(target, "__dataclass_fields__", {})
    factory = getattr(fields.get(name), "default_factory", None)
    return factory() if callable(factory) else parameter.default
