"""From gin files and ``--gin.`` flags to one built value. The only importer of gin.

gin's own parser reads the files; ``resolution.py`` gives the statements their meaning by gin's rules, so that
every message can name a file and a line. Why: ``docs/decisions/0002``.
"""

import io
import os
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t5x_like.gin_config.bindings import Bindings
from t5x_like.gin_config.config_text import config_text
from t5x_like.gin_config.gin_syntax import (
    REQUIRED,
    Binding,
    Block,
    Import,
    Include,
    Macro,
    Origin,
    Reference,
    Sources,
    Statement,
)
from t5x_like.gin_config.resolution import Resolved, Resolver
from t5x_like.gin_config.syntax_errors import syntax_mistake
from t5x_like.gin_config.user_error import Mistake, nearest
from t5x_like.io.files import shipped_directory


class Loaded(NamedTuple):
    """A built configuration: ``value``, every parameter with its origin, and gin text that rebuilds it.

    ``shown`` is that text with a note on each line; ``unused`` are bindings in files that nothing reads.
    """

    value: Any
    resolved: list[Resolved]
    text: str
    shown: str
    unused: list[str]


def load(
    gin_files: Sequence[str],
    overrides: Sequence[str] = (),
    *,
    roots: Sequence[str | Callable[..., Any]],
    search_paths: Sequence[str] = (),
    verbs: Mapping[str, str] = {},
) -> Loaded:
    """Reads ``gin_files``, then ``overrides`` (``"NAME=value"``), and builds the first root they configure.

    A root is a class or function, or its dotted name: gin files import what they configure. ``verbs`` names the
    commands for other roots, to point out to somebody who took the wrong one.

    Raises:
      Mistake: anything the user can put right, with file and line.
    """
    sources = read(gin_files, overrides, search_paths=search_paths)
    resolver = Resolver(Bindings(sources))
    value = resolver.build_root(roots, verbs)
    text, shown = config_text(resolver), config_text(resolver, origins=True)
    return Loaded(value, resolver.resolved, text, shown, resolver.unused())


def load_one(
    gin_files: Sequence[str],
    overrides: Sequence[str] = (),
    *,
    root: str | Callable[..., Any],
    parameter: str,
    knob: str,
    search_paths: Sequence[str] = (),
) -> Any:
    """The value of ``knob`` and nothing else; where it isn't defined, what is bound to ``parameter`` of ``root``."""
    resolver = Resolver(Bindings(read(gin_files, overrides, search_paths=search_paths)))
    if knob in resolver.bindings.knobs:
        return resolver.build_knob(knob)
    return resolver.build_parameter(root, parameter, knob)


def read(
    gin_files: Sequence[str], overrides: Sequence[str] = (), *, search_paths: Sequence[str] = ()
) -> Sources:
    """Collects the statements of files, their includes, and overrides, in order."""
    sources = Sources()
    places = ["", *search_paths, str(shipped_directory("gin").parent)]
    for file in gin_files:
        _read_file(file, places, sources, included_from=())
    sources.imports.append([])
    for override in overrides:
        for statement in _statements(override, None):
            if not isinstance(statement, Binding):
                raise Mistake(f"--gin.{override} is not of the form --gin.NAME=value", where="command line")
            sources.bindings.append((statement, len(sources.imports) - 1))
    return sources


def find_gin_file(name: str, places: Sequence[str]) -> Path | None:
    """The first of ``places`` that has the file; ``""`` is the working directory."""
    candidates = [Path(place) / name for place in places]
    return next((path for path in candidates if path.is_file()), None)


def _read_file(
    name: str, places: Sequence[str], sources: Sources, *, included_from: tuple[Origin, ...]
) -> None:
    path = find_gin_file(name, places)
    if path is None:
        raise _missing_file(name, places, included_from)
    shown = _shown(path)
    if shown in [origin.file for origin in included_from]:
        chain = " -> ".join([*(str(origin) for origin in included_from), shown])
        raise Mistake(f"the file includes itself: {chain}", where=str(included_from[-1]))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise Mistake(f"not UTF-8 text: {error.reason} at byte {error.start}", where=shown) from error
    sources.files.append(shown)
    sources.imports.append([])
    own_imports = len(sources.imports) - 1
    for statement in _statements(text, shown):
        match statement:
            case Binding():
                sources.bindings.append((statement, own_imports))
            case Block():
                sources.blocks.append((statement, own_imports))
            case Import():
                sources.imports[own_imports].append(statement)
            case Include():
                _read_file(statement.file, places, sources, included_from=(*included_from, statement.origin))


def _missing_file(name: str, places: Sequence[str], included_from: tuple[Origin, ...]) -> Mistake:
    searched = ", ".join(dict.fromkeys(os.path.abspath(place) for place in places))
    siblings = [
        str(path.relative_to(place or "."))
        for place in places
        for path in (Path(place) / name).parent.glob("*.gin")
        if path.is_file()
    ]
    hint = nearest(name, siblings)
    if not included_from:
        return Mistake(
            f"there is no gin file {name!r} (searched {searched})", where="command line", hint=hint
        )
    return Mistake(
        f"includes {name!r}, which does not exist (searched {searched})",
        where=str(included_from[-1]),
        source=included_from[-1].source,
        hint=hint,
    )


def _shown(path: Path) -> str:
    absolute, here = path.absolute(), Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)


def _statements(text: str, file: str | None) -> Iterator[Statement]:
    """Runs gin's parser over ``text`` and translates its statements and errors."""
    from gin import config_parser

    class Delegate(config_parser.ParserDelegate):
        def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> Reference:
            *scopes, name = scoped_configurable_name.split("/")
            return Reference(tuple(scopes), name, evaluate)

        def macro(self, macro_name: str) -> Any:
            return REQUIRED if macro_name in ("gin.REQUIRED", "REQUIRED") else Macro(macro_name)

    def origin(location: Any) -> Origin:
        source = location.line_content.split("\n")[0] if file else f"--gin.{text}"
        return Origin(file, location.line_num, source)

    try:
        for statement in config_parser.ConfigParser(io.StringIO(text), Delegate()):
            where = origin(statement.location)
            match statement:
                case config_parser.BindingStatement():
                    yield Binding(
                        statement.scope, statement.selector, statement.arg_name, statement.value, where
                    )
                case config_parser.IncludeStatement():
                    yield Include(statement.filename, where)
                case config_parser.BlockDeclaration():
                    yield Block(statement.selector, where)
                case config_parser.ImportStatement() if not statement.module.startswith("__gin__."):
                    whole_path = not statement.is_from and not statement.alias
                    yield Import(statement.module, statement.bound_name(), whole_path, where)
    except (SyntaxError, tokenize.TokenError) as error:
        raise syntax_mistake(error, text, file) from error
