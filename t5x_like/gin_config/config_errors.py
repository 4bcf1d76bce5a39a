"""Messages for configurations that can't be built: each names the place, the cause and what to do."""

import re

from t5x_like.gin_config.bindings import Bindings, EffectiveBinding
from t5x_like.gin_config.imported_names import Target, short_name
from t5x_like.gin_config.statements import Origin
from t5x_like.gin_config.user_error import UserError, nearest

COMMAND_LINE = Origin(None, 0)


def origin_of(bound: EffectiveBinding, bindings: Bindings) -> str:
    """Return ``gin/runs/pretrain.gin:9``; for a value of a macro, the file and line that set the macro.

    Args:
      bound: Binding in use.
      bindings: All bindings.
    """
    source = bindings.source_of(bound)
    return str(bound.origin) if source is bound else f"{source.origin} ({source.name})"


def value_error(bound: EffectiveBinding, message: str, bindings: Bindings, hint: str = "") -> UserError:
    """Return an error about a bound value, placed where the value was written.

    Args:
      bound: The binding.
      message: The problem.
      bindings: To find the macro that the value came from.
      hint: What to do.
    """
    source = bindings.source_of(bound)
    used = f" (the macro {source.name} is used for it in {bound.origin})" if source is not bound else ""
    return UserError(f"{message}{used}", where=str(source.origin), source=source.origin.source, hint=hint)


def target_error(
    error: Exception,
    target: Target,
    bounds: dict[str, EffectiveBinding],
    referrer: EffectiveBinding | None,
    bindings: Bindings,
) -> UserError:
    """Return the target's own error, placed at the binding whose parameter the error mentions.

    Args:
      error: Raised by the target.
      target: The class or function that was called.
      bounds: Its bindings by parameter.
      referrer: The binding that refers to the target; None for a root.
      bindings: To find the macro that a value came from.
    """
    words = re.findall(r"\w+", str(error))
    named = next((bounds[word] for word in words if word in bounds), None)
    if named:
        return value_error(named, f"{short_name(target)}: {error}", bindings)
    return _at(_place(bounds, referrer), f"{short_name(target)}: {error}")


def missing_arguments(
    target: Target, names: list[str], bounds: dict[str, EffectiveBinding], referrer: EffectiveBinding | None
) -> UserError:
    """Return an error about parameters that have neither a default nor a binding.

    Args:
      target: The class or function to call.
      names: Its parameters without a value.
      bounds: Its bindings by parameter.
      referrer: The binding that refers to the target; None for a root.
    """
    path = f"{short_name(target)}.{names[0]}"
    hint = f"add {path} = … to your gin file, or pass --set {path}=…"
    return _at(_place(bounds, referrer), f"{short_name(target)} is given no {', no '.join(names)}", hint)


def undefined_macro(name: str, user: EffectiveBinding, bindings: Bindings) -> UserError:
    """Return an error about an undefined ``%NAME``, with the file and line that uses it.

    Args:
      name: Name of the macro.
      user: Binding that uses it.
      bindings: All bindings, for suggestions.
    """
    hint = nearest(name, bindings.macros) or f"define it ({name} = …) or pass --set {name}=…"
    return _at(user.origin, f"%{name} is not defined", hint)


def macro_cycle(names: list[str], user: EffectiveBinding) -> UserError:
    """Return an error about macros that are defined by one another.

    Args:
      names: Macros in the order of reference.
      user: Binding that uses the first one.
    """
    return _at(user.origin, f"macros go round in a circle: {' -> '.join(names)}")


def unused_flag(bound: EffectiveBinding, bindings: Bindings) -> UserError:
    """Return an error about a flag that changes nothing, which is usually misspelt.

    Args:
      bound: Binding of the flag.
      bindings: All bindings, for suggestions.
    """
    known = [other.name for other in bindings.all() if other.used]
    return _at(bound.origin, f"nothing here uses {bound.name}", nearest(bound.name, known))


def missing_values(missing: list[EffectiveBinding]) -> UserError:
    """Return an error that lists all missing ``%gin.REQUIRED`` values as flags to copy."""
    flags = {bound.name: (f"--set {bound.name}=…", bound.origin) for bound in missing}
    width = max(len(flag) for flag, _ in flags.values())
    number = "a value is" if len(flags) == 1 else f"{len(flags)} values are"
    lines = [f"  {flag:<{width}}   # {origin}" for flag, origin in flags.values()]
    return UserError("\n".join([f"{number} still to be given; pass, or set in your recipe:", *lines]))


def _place(bounds: dict[str, EffectiveBinding], referrer: EffectiveBinding | None) -> Origin:
    return referrer.origin if referrer else next((bound.origin for bound in bounds.values()), COMMAND_LINE)


def _at(origin: Origin, message: str, hint: str = "") -> UserError:
    return UserError(message, where=str(origin), source=origin.source, hint=hint)
