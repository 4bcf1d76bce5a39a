"""Evaluation of gin's statements (scopes, macros and references) by gin's rules into plain values.

A reference with a scope replaces the active scope; a macro is evaluated in a scope of its own name.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

from t5x_like.gin_config import config_errors
from t5x_like.gin_config.bindings import Bindings, EffectiveBinding, Scope
from t5x_like.gin_config.imported_names import Target, parameters_of, short_name
from t5x_like.gin_config.statements import REQUIRED, ConfigurableReference, macro_of, macros_in
from t5x_like.gin_config.user_error import UserError, nearest
from t5x_like.nested_values import leaves_of, rebuilt
from t5x_like.value_types import TypeMismatchError, conform, parameter_types


class ResolvedParameter(NamedTuple):
    """A parameter of a built object: its value and its origin."""

    name: str
    value: Any
    origin: str


class Resolver:
    """Evaluator of bindings.

    Attributes:
      called: The classes and functions called, each with the defaults it used.
      resolved: Every parameter so far, with value and origin.
    """

    def __init__(self, bindings: Bindings) -> None:
        self.bindings = bindings
        self.called: dict[Target, dict[str, Any]] = {}
        self.resolved: list[ResolvedParameter] = []
        self._missing_values: list[EffectiveBinding] = []
        self._open_macros: list[str] = []

    def build_root(self, roots: Sequence[Target | str], verbs: Mapping[str, str]) -> object:
        """Call the first root that has bindings.

        Args:
          roots: Classes or functions, or their dotted names.
          verbs: Commands for other roots by dotted name, to suggest if no root has bindings.

        Raises:
          UserError: No root has bindings, a required value is missing, or a flag has no effect.
        """
        configured = next(filter(None, (self._configured_root(root) for root in roots)), None)
        if configured is None:
            wanted = " or ".join(_shortened(root) for root in roots)
            others = (
                f"t5x-like {verb} is for these files"
                for root, verb in verbs.items()
                if self._configured_root(root)
            )
            raise UserError(
                f"the gin files say nothing about {wanted}, so there is nothing to run", hint=next(others, "")
            )
        value = self._or_raise_missing(self._call(configured, (), None))
        for bound in self.bindings.all():
            if bound.origin.file is None and not bound.used and bound.name not in self.bindings.keys:
                raise config_errors.unused_flag(bound, self.bindings)
        return value

    def _configured_root(self, root: Target | str) -> Target | None:
        """Return the class or function if it has bindings. Compares dotted names, so nothing is imported."""
        targets = (target for _, target in self.bindings.tables)
        return next(
            (each for each in targets if root in (each, f"{each.__module__}.{each.__qualname__}")), None
        )

    def build_macro(self, name: str) -> object:
        """Build the value of a macro."""
        macro = self.bindings.macros[name]
        return self._or_raise_missing(self._evaluate_macro(name, macro))

    def build_parameter(self, root: Target | str, parameter: str, macro: str) -> object:
        """Build the value bound to one parameter.

        Args:
          root: Class or function, or its dotted name.
          parameter: Name of the parameter.
          macro: Name of the macro that usually sets it, for messages.
        """
        target = self._configured_root(root)
        bound = self.bindings.applying(target, ()).get(parameter) if target else None
        if target is None or bound is None:
            raise UserError(f"the gin files define neither {_shortened(root)}.{parameter} nor {macro}")
        annotation = parameter_types(target).get(parameter, Any)
        return self._conform(
            self._or_raise_missing(self._evaluate(bound.value, (), bound)), annotation, bound
        )

    def _or_raise_missing(self, value: object) -> object:
        if self._missing_values:
            raise config_errors.missing_values(self._missing_values)
        return value

    def unused(self) -> list[str]:
        """Return messages about bindings in files that nothing reads.

        Shared files set macros that not every run needs, so an unused macro is reported only if its name looks
        misspelt, and no file before defines it. Bindings of a target whose reference another file overrode, or of a
        sweep's COMPARISON, are not reported, nor are their macros and those of overridden values.
        """
        replaced, compared = self._replaced(), self._compared()
        known = [macro.name for macro in self.bindings.macros.values() if macro.used]
        idle = [
            bound
            for bound in self.bindings.all()
            if (bound.origin.file, bound.target) in replaced or bound.target in compared
        ]
        overridden = [bound.before for bound in self.bindings.all() if bound.before is not None]
        macros = {name for bound in (*idle, *overridden) for name in macros_in(bound.value)}
        lines = []
        for bound in self.bindings.all():
            if bound in idle or (bound.target is None and bound.name in macros | self.bindings.keys):
                continue
            hint = nearest(bound.name, known) if bound.target is None and bound.before is None else ""
            if not bound.origin.line:
                continue
            if not bound.used and (hint or bound.target):
                lines.append(f"{bound.origin}: {bound.name} has no effect" + (f"; {hint}" if hint else ""))
        return lines

    def _compared(self) -> set[Target]:
        """Return everything that is reachable only through a sweep's COMPARISON."""
        comparison = self.bindings.macros.get("COMPARISON")
        new = set() if comparison is None else set(self.bindings.targets_in(comparison))
        compared = set()
        while new:
            compared |= new
            bounds = [bound for bound in self.bindings.all() if bound.target in new]
            new = {each for bound in bounds for each in self.bindings.targets_in(bound)} - compared
        return compared - self.called.keys()

    def _replaced(self) -> set[tuple[str | None, Target]]:
        """Return references that a later file replaced, and everything reachable only through them."""
        replaced, new = set(), self.bindings.replaced
        while new:
            replaced |= new
            idle = [bound for bound in self.bindings.all() if (bound.origin.file, bound.target) in new]
            new = {
                (bound.origin.file, each) for bound in idle for each in self.bindings.targets_in(bound)
            } - replaced
        return {(file, target) for file, target in replaced if target not in self.called}

    def _call(self, target: Target, scope: Scope, referrer: EffectiveBinding | None) -> Any:
        bounds, arguments = self.bindings.applying(target, scope), self._configured(target, scope)
        fixed = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        free = {
            name: parameter
            for name, parameter in parameters_of(target).items()
            if name not in bounds and parameter.kind not in fixed
        }
        unbound = [name for name, parameter in free.items() if parameter.default is Parameter.empty]
        if unbound:
            raise config_errors.missing_arguments(target, unbound, bounds, referrer)
        for name, parameter in free.items():
            default = self.called[target][name] = _default(target, name, parameter)
            self._record(scope, f"{short_name(target)}.{name}", default, "default")
        if _is_missing(arguments):
            return REQUIRED
        try:
            return target(**arguments)
        except UserError:
            raise
        except (ValueError, TypeError) as error:
            raise config_errors.target_error(error, target, bounds, referrer, self.bindings) from error

    def _configured(self, target: Target, scope: Scope) -> dict[str, object]:
        """Evaluate and checks the bound arguments, in the order of the signature."""
        self.called.setdefault(target, {})
        annotations, bounds = parameter_types(target), self.bindings.applying(target, scope)
        order = list(parameters_of(target))
        arguments = {}
        for name in sorted(bounds, key=lambda name: order.index(name) if name in order else len(order)):
            bound, annotation = bounds[name], annotations.get(name, Any)
            value = self._evaluate(bound.value, scope, bound)
            arguments[name] = value if _is_missing(value) else self._conform(value, annotation, bound)
            self._record(scope, bound.path, arguments[name], config_errors.origin_of(bound, self.bindings))
        return arguments

    def _record(self, scope: Scope, path: str, value: object, origin: str) -> None:
        self.resolved.append(ResolvedParameter("/".join((*scope, path)), value, origin))

    def _evaluate(self, value: object, scope: Scope, bound: EffectiveBinding) -> object:
        if value is REQUIRED:
            self._missing_values.append(bound)
            return REQUIRED
        if macro := macro_of(value):
            return self._evaluate_macro(macro, bound)
        if isinstance(value, ConfigurableReference):
            target = self.bindings.find(value.name, bound.file_index, bound.origin)
            inner = value.scopes or scope
            return self._call(target, inner, bound) if value.call else self._function(target, inner)
        return rebuilt(lambda part: self._evaluate(part, scope, bound), value)

    def _evaluate_macro(self, name: str, user: EffectiveBinding) -> object:
        if name not in self.bindings.macros:
            raise config_errors.undefined_macro(name, user, self.bindings)
        if name in self._open_macros:
            raise config_errors.macro_cycle([*self._open_macros, name], user)
        binding = self.bindings.macros[name]
        binding.used = True
        self._open_macros.append(name)
        try:
            return self._evaluate(binding.value, tuple(name.split("/")), binding)
        finally:
            self._open_macros.pop()

    def _function(self, target: Target, scope: Scope) -> Callable[..., object]:
        """Return the target of ``@name`` without brackets, with its bindings applied as a partial."""
        arguments = self._configured(target, scope)
        return functools.partial(target, **arguments) if arguments else target

    def _conform(self, value: object, annotation: object, bound: EffectiveBinding) -> object:
        try:
            return conform(value, annotation)
        except TypeMismatchError as mismatch:
            raise config_errors.value_error(
                bound, f"{bound.path} {mismatch}", self.bindings, mismatch.hint
            ) from mismatch


def _shortened(root: Target | str) -> str:
    return ".".join(root.split(".")[-2:]) if isinstance(root, str) else short_name(root)


def _is_missing(value: object) -> bool:
    return any(leaf is REQUIRED for leaf in leaves_of(value))


def _default(target: Target, name: str, parameter: Parameter) -> object:
    """Return a parameter's default; calls a dataclass field's default factory."""
    fields = getattr(target, "__dataclass_fields__", {})
    factory = getattr(fields.get(name), "default_factory", None)
    return factory() if callable(factory) else parameter.default
