"""Gin text of a resolved configuration: saved with a run, and printed by ``config show``."""

import ast
from collections.abc import Sequence

from t5x_like.credentials import masked
from t5x_like.gin_config.bindings import EffectiveBinding
from t5x_like.gin_config.imported_names import Target, parameters_of
from t5x_like.gin_config.resolver import Resolver
from t5x_like.gin_config.statements import ConfigurableReference, references_in
from t5x_like.nested_values import rebuilt


def config_text(resolver: Resolver, modules: Sequence[str] = (), *, origins: bool = False) -> str:
    """Return gin text that rebuilds what ``resolver`` built.

    Defaults are written out too, so that a later version with other defaults rebuilds the same value. A default
    that gin can't express (an object) is written as a comment.

    Args:
      resolver: After it has built a value.
      modules: Users' modules to import.
      origins: End each line with the origin of its value.
    """
    selectors = _selectors(list(resolver.called), resolver, modules)
    imports = _import_lines(selectors) | {f"import {name}" for name in modules}
    sections = [["from __gin__ import dynamic_registration", *sorted(imports)]]
    macros = [bound for bound in resolver.bindings.macros.values() if bound.used]
    if macros:
        sections.append([_line(macro, macro.parameter, resolver, selectors, origins) for macro in macros])
    for target in resolver.called:
        sections += _target_sections(target, resolver, selectors, origins)
    return masked("\n\n".join("\n".join(_align(section)) for section in sections) + "\n")


def _target_sections(
    target: Target, resolver: Resolver, selectors: dict[object, str], origins: bool
) -> list[list[str]]:
    tables = {scope: table for (scope, owner), table in resolver.bindings.tables.items() if owner is target}
    tables.setdefault("", {})
    sections = []
    for scope in sorted(tables):
        lines = {
            name: _line(bound, name, resolver, selectors, origins)
            for name, bound in tables[scope].items()
            if bound.used
        }
        if scope == "":
            defaults = {name: value for name, value in resolver.called[target].items() if name not in lines}
            lines |= {name: _default_line(name, value, origins) for name, value in defaults.items()}
        header = f"{scope}/{selectors[target]}:" if scope else f"{selectors[target]}:"
        if all(line.startswith("#") for line in lines.values()):
            header = f"# {header} all defaults"
        ordered = [name for name in parameters_of(target) if name in lines]
        ordered += [name for name in lines if name not in ordered]
        if ordered:
            sections.append([header, *(f"    {lines[name]}" for name in ordered)])
    return sections


def _line(
    bound: EffectiveBinding, name: str, resolver: Resolver, selectors: dict[object, str], origins: bool
) -> str:
    text = f"{name} = {_format(bound.value, bound, resolver, selectors)}"
    if not origins:
        return text
    notes = []
    source = resolver.bindings.source_of(bound)
    if source is not bound and not references_in(source.value):
        notes.append(f"= {source.value!r}")
    notes.append(str(bound.origin))
    if bound.before:
        notes.append(f"over {bound.before.origin}")
    return f"{text}  # {', '.join(notes)}"


def _default_line(name: str, value: object, origins: bool) -> str:
    text = f"{name} = {_literal(value)}" if _literal(value) is not None else f"# {name} = {value!r}"
    return f"{text}  # default" if origins or text.startswith("#") else text


def _format(value: object, bound: EffectiveBinding, resolver: Resolver, selectors: dict[object, str]) -> str:
    if isinstance(value, ConfigurableReference):
        target = resolver.bindings.find(value.name, bound.file_index, bound.origin)
        return f"@{'/'.join((*value.scopes, selectors[target]))}{'()' if value.call else ''}"
    return repr(rebuilt(lambda part: _Text(_format(part, bound, resolver, selectors)), value))


class _Text(str):
    """Gin text of a part, which a ``repr`` of the whole shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _literal(value: object) -> str | None:
    """Return ``value`` as gin text, or None if gin can't express it."""
    try:
        return repr(value) if ast.literal_eval(repr(value)) == value else None
    except (ValueError, SyntaxError, TypeError, MemoryError):
        return None


def _selectors(called: list[Target], resolver: Resolver, users_modules: Sequence[str]) -> dict[object, str]:
    """Return a gin selector for each target; a number keeps modules with the same last name apart."""
    modules = {name: name for name in users_modules if "." not in name}
    selectors = {}
    for target in [*called, *_referred(resolver)]:
        module = target.__module__
        if module not in modules:
            short = module.rsplit(".", 1)[-1]
            num_earlier = sum(name.rstrip("0123456789") == short for name in modules.values())
            modules[module] = f"{short}{num_earlier + 1}" if num_earlier or short == "gin" else short
        selectors[target] = f"{modules[module]}.{target.__qualname__}"
    return selectors


def _referred(resolver: Resolver) -> list[Target]:
    used = [bound for bound in resolver.bindings.all() if bound.used]
    return [target for bound in used for target in resolver.bindings.targets_in(bound)]


def _import_lines(selectors: dict[object, str]) -> set[str]:
    lines = set()
    for target, selector in selectors.items():
        symbol, (package, _, last) = selector.split(".")[0], target.__module__.rpartition(".")
        statement = f"from {package} import {last}" if package else f"import {last}"
        lines.add(statement if symbol == last else f"{statement} as {symbol}")
    return lines


def _align(lines: list[str]) -> list[str]:
    """Align the comments of a section, except on lines wider than 60 columns."""
    widths = [line.index("  # ") for line in lines if "  # " in line and not line.lstrip().startswith("#")]
    column = max((width for width in widths if width <= 60), default=0)
    return [_pad(line, column) if "  # " in line else line for line in lines]


def _pad(line: str, column: int) -> str:
    statement, _, comment = line.partition("  # ")
    return f"{statement:<{column}}  # {comment}"
