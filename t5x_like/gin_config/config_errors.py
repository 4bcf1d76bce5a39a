"""The messages of a configuration that can't be built: each names the place, the cause and what to do."""

import re
from typing import Any

from t5x_like.gin_config.bindings import Bindings, Bound
from t5x_like.gin_config.gin_names import Target, short_name
from t5x_like.gin_config.gin_syntax import Origin
from t5x_like.gin_config.user_error import Mistake, nearest

COMMAND_LINE = Origin(None, 0)


def origin_of(bound: Bound, bindings: Bindings) -> str:
    """``gin/runs/pretrain.gin:9``; for a value taken from a knob, where the knob was set."""
    source = bindings.source_of(bound)
    return str(bound.origin) if source is bound else f"{source.origin} ({source.name})"


def about(bound: Bound, message: str, bindings: Bindings, hint: str = "") -> Mistake:
    """A complaint about a bound value, placed where the value was written."""
    source = bindings.source_of(bound)
    used = f" (the knob {source.name} is used for it in {bound.origin})" if source is not bound else ""
    return Mistake(f"{message}{used}", where=str(source.origin), source=source.origin.source, hint=hint)


def refused(
    error: Exception, target: Target, bounds: dict[str, Bound], asked_by: Bound | None, bindings: Bindings
) -> Mistake:
    """The object's own complaint, placed at the binding it speaks of."""
    words = re.findall(r"\w+", str(error))
    named = next((bounds[word] for word in words if word in bounds), None)
    if named:
        return about(named, f"{short_name(target)}: {error}", bindings)
    return _at(_place(bounds, asked_by), f"{short_name(target)}: {error}")


def unbound(target: Target, names: list[str], bounds: dict[str, Bound], asked_by: Bound | None) -> Mistake:
    """Parameters without a default that nobody bound."""
    path = f"{short_name(target)}.{names[0]}"
    hint = f"add {path} = … to your gin file, or pass --gin.{path}=…"
    return _at(_place(bounds, asked_by), f"{short_name(target)} is given no {', no '.join(names)}", hint)


def undefined_knob(name: str, user: Bound, bindings: Bindings) -> Mistake:
    """``%NAME`` that nobody defined, at the place that uses it."""
    hint = nearest(name, bindings.knobs) or f"define it ({name} = …) or pass --gin.{name}=…"
    return _at(user.origin, f"%{name} is not defined", hint)


def circle(names: list[str], user: Bound) -> Mistake:
    """A knob set to itself by way of others."""
    return _at(user.origin, f"knobs go round in a circle: {' -> '.join(names)}")


def without_effect(bound: Bound, bindings: Bindings) -> Mistake:
    """A flag that changes nothing is a misspelt flag."""
    known = [other.name for other in bindings.all() if other.used]
    return _at(bound.origin, f"nothing here uses {bound.name}", nearest(bound.name, known))


def still_to_give(missing: list[tuple[Bound, Any]]) -> Mistake:
    """All values marked ``%gin.REQUIRED`` that nobody gave, as flags to copy."""
    flags = {
        bound.name: (f"--gin.{bound.name}=" + ("\"'…'\"" if _is_text(annotation) else "…"), bound.origin)
        for bound, annotation in missing
    }
    width = max(len(flag) for flag, _ in flags.values())
    number = "a value is" if len(flags) == 1 else f"{len(flags)} values are"
    lines = [f"  {flag:<{width}}   # {origin}" for flag, origin in flags.values()]
    return Mistake("\n".join([f"{number} still to be given; pass, or set in your recipe:", *lines]))


def _place(bounds: dict[str, Bound], asked_by: Bound | None) -> Origin:
    return asked_by.origin if asked_by else next((bound.origin for bound in bounds.values()), COMMAND_LINE)


def _at(origin: Origin, message: str, hint: str = "") -> Mistake:
    return Mistake(message, where=str(origin), source=origin.source, hint=hint)


def _is_text(annotation: Any) -> bool:
    return annotation is str or str in getattr(annotation, "__args__", ())
