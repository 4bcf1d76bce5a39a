"""Build one value from gin files, ``--set`` and ``--gin.`` flags.

Gin's own parser reads the files; ``resolver.py`` evaluates the statements by gin's rules, so that every message
can name a file and a line. The reasons are in ``docs/decisions/0002``. Reading a configuration calls configuration
classes and functions only: the rule is in ``configuration_names.py``.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t5x_like.gin_config.bindings import Bindings
from t5x_like.gin_config.config_text import config_text
from t5x_like.gin_config.gin_syntax import Override, as_binding, parse
from t5x_like.gin_config.resolver import ResolvedParameter, Resolver
from t5x_like.gin_config.statements import (
    REQUIRED,
    BindingStatement,
    BlockStatement,
    GinStatements,
    GinTable,
    ImportStatement,
    IncludeStatement,
    Origin,
    macros_in,
)
from t5x_like.gin_config.tables import TABLE, is_table, read_table, replace_tables
from t5x_like.gin_config.user_error import UserError, nearest
from t5x_like.io.files import shipped_directory

_OUR_PACKAGES = ("t5x_like", "__gin__")


class Configuration(NamedTuple):
    """A value built from gin files.

    Attributes:
      value: The built object, such as an ``Experiment``.
      resolved: Every parameter with its value and origin.
      text: Gin text that rebuilds the value.
      annotated_text: Gin text that rebuilds the value, with the origin of each value.
      unused: Messages about bindings in files that nothing reads.
    """

    value: Any
    resolved: list[ResolvedParameter]
    text: str
    annotated_text: str
    unused: list[str]


def load(
    gin_files: Sequence[str],
    overrides: Sequence[Override] = (),
    *,
    roots: Sequence[str | Callable[..., object]],
    search_paths: Sequence[str] = (),
    verbs: Mapping[str, str] = {},
    defaults: Sequence[str] = (),
    modules: Sequence[str] = (),
) -> Configuration:
    """Build the first of ``roots`` that the gin files configure.

    Args:
      gin_files: Files to read, in order; later statements override earlier ones.
      overrides: Bindings from the command line, read last: ``"NAME=value"`` in gin's syntax, or a ``Setting``.
      roots: Classes or functions, or their dotted names.
      search_paths: More folders to look for gin files in.
      verbs: Commands for other roots by dotted name, to suggest when none of ``roots`` is configured.
      defaults: Macros for files that don't define them, ``"NAME = value"``.
      modules: Users' modules that were imported for what they register; ``text`` imports them too.

    Raises:
      UserError: Anything the user can put right, with file and line.
    """
    sources = read(gin_files, overrides, search_paths=search_paths, defaults=defaults)
    for table in sources.open_tables:
        hint = f"pass --set {table.key}=… with one of: {', '.join(table.rows)}"
        raise UserError(
            f"{table.key} chooses a row of the table here; no row is chosen",
            where=str(table.origin),
            hint=hint,
        )
    resolver = Resolver(Bindings(sources))
    value = resolver.build_root(roots, verbs)
    imported = [statement.module for table in sources.imports for statement in table]
    modules = [*modules, *(name for name in imported if name.split(".")[0] not in _OUR_PACKAGES)]
    text, annotated = config_text(resolver, modules), config_text(resolver, modules, origins=True)
    return Configuration(value, resolver.resolved, text, annotated, resolver.unused())


def load_one(
    gin_files: Sequence[str],
    overrides: Sequence[Override] = (),
    *,
    root: str | Callable[..., Any],
    parameter: str,
    macro: str,
    search_paths: Sequence[str] = (),
    defaults: Sequence[str] = (),
) -> Any:
    """Build the value of ``macro`` alone or, if undefined, the value bound to ``parameter`` of ``root``.

    Args:
      gin_files: Files to read; see ``load``.
      overrides: See ``load``.
      root: A class or function, or its dotted name.
      parameter: One of its parameters.
      macro: Name of a macro.
      search_paths: See ``load``.
      defaults: See ``load``.

    Raises:
      UserError: Neither is defined, or the value can't be built.
    """
    sources = read(gin_files, overrides, search_paths=search_paths, defaults=defaults)
    resolver = Resolver(Bindings(sources))
    if macro in resolver.bindings.macros:
        return resolver.build_macro(macro)
    return resolver.build_parameter(root, parameter, macro)


def required_macros(
    gin_files: Sequence[str], overrides: Sequence[Override] = (), *, search_paths: Sequence[str] = ()
) -> list[str]:
    """Return the macros whose last value is ``%gin.REQUIRED``.

    Args:
      gin_files: Files, read in this order.
      overrides: Bindings that come after the files.
      search_paths: Folders to look for files and includes in.
    """
    bindings = read(gin_files, overrides, search_paths=search_paths).bindings
    last = {statement.name: statement.value for statement, _ in bindings if not statement.parameter}
    return [name for name, value in last.items() if value is REQUIRED]


def read(
    gin_files: Sequence[str],
    overrides: Sequence[Override] = (),
    *,
    search_paths: Sequence[str] = (),
    defaults: Sequence[str] = (),
) -> GinStatements:
    """Return the statements of the files, their includes and the overrides, in order.

    A default comes first where nothing defines its macro, unless it refers to another one that nothing defines.
    Tables are replaced by the rows that their macros choose.

    Args:
      gin_files: Files, read in this order.
      overrides: Bindings that come after the files.
      search_paths: Folders to look for files and includes in.
      defaults: Bindings of macros that come first.
    """
    sources = GinStatements()
    folders = ["", *search_paths, str(shipped_directory("gin").parent)]

    def include(file: str, included_from: tuple[Origin, ...]) -> None:
        _read_file(file, folders, sources, included_from=included_from)

    for file in gin_files:
        include(file, ())
    bindings = [as_binding(override) for override in overrides]
    replace_tables(sources, bindings, include)
    sources.imports.append([])
    sources.bindings += [(binding, len(sources.imports) - 1) for binding in bindings]
    defined = {statement.name for statement, _ in sources.bindings if not statement.parameter}
    for text in defaults:
        default = as_binding(text)._replace(origin=Origin("default", 0, text))
        if default.name not in defined and defined.issuperset(macros_in(default.value)):
            sources.bindings.insert(0, (default, -1))
    return sources


def _find_gin_file(name: str, folders: Sequence[str]) -> Path | None:
    """Return the file's path in the first of ``folders`` that has it; ``""`` is the working directory."""
    candidates = [Path(folder) / name for folder in folders]
    return next((path for path in candidates if path.is_file()), None)


def _read_file(
    name: str, folders: Sequence[str], sources: GinStatements, *, included_from: tuple[Origin, ...]
) -> None:
    path = _find_gin_file(name, folders)
    if path is None:
        raise _missing_file(name, folders, included_from)
    shown = _shown(path)
    if shown in [origin.file for origin in included_from]:
        chain = " -> ".join([*(str(origin) for origin in included_from), shown])
        raise UserError(f"the file includes itself: {chain}", where=str(included_from[-1]))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8 text: {error.reason} at byte {error.start}", where=shown) from error
    sources.files.append(shown)
    sources.imports.append([])
    own_imports = len(sources.imports) - 1
    for statement in parse(text, shown):
        match statement:
            case BindingStatement():
                sources.bindings.append((statement, own_imports))
            case BlockStatement():
                sources.blocks.append((statement, own_imports))
            case ImportStatement():
                sources.imports[own_imports].append(statement)
            case IncludeStatement():
                _read_file(statement.file, folders, sources, included_from=(*included_from, statement.origin))


def _missing_file(name: str, folders: Sequence[str], included_from: tuple[Origin, ...]) -> UserError:
    searched = ", ".join(dict.fromkeys(os.path.abspath(folder) for folder in folders))
    siblings = {
        str(path.relative_to(folder or ".") if path.is_relative_to(folder or ".") else path): path
        for folder in folders
        for path in (Path(folder) / name).parent.glob("*.gin")
        if path.is_file()
    }
    hint = _row_of_a_table(Path(name).stem, siblings) or nearest(name, siblings)
    if not included_from:
        return UserError(
            f"there is no gin file {name!r} (searched {searched})", where="command line", hint=hint
        )
    return UserError(
        f"includes {name!r}, which does not exist (searched {searched})",
        where=str(included_from[-1]),
        source=included_from[-1].source,
        hint=hint,
    )


def _row_of_a_table(stem: str, files: Mapping[str, Path]) -> str:
    """Return a hint for a file that is a row of another file's table: ``glue_cola`` is ``cola`` of ``glue.gin``."""
    rows = [
        (stem == f"{path.stem}_{row}", shown, table.key, row)
        for shown, path in files.items()
        for table in tables_in(path)
        for row in table.rows
        if f"_{stem}".endswith(f"_{row}")
    ]
    if not rows:
        return ""
    _, file, key, row = max(rows)
    return f"it is a row of {file} now: --gin_file={file} --set {key}={row}"


def tables_in(path: Path) -> list[GinTable]:
    """Return the tables of a gin file, without those that it includes; none if the file can't be read."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    try:
        statements = list(parse(text, _shown(path))) if f"{TABLE} = " in text else []
        return [read_table(each) for each in statements if is_table(each)]
    except UserError:
        return []


def _shown(path: Path) -> str:
    absolute, here = path.absolute(), Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)
