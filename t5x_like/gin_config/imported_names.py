"""Lookup of the classes, functions and parameters that gin files name; suggests the nearest name."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from t5x_like.configuration_names import is_importable, is_nameable
from t5x_like.gin_config.statements import ImportStatement, Origin
from t5x_like.gin_config.user_error import UserError, nearest, nearest_or_all
from t5x_like.text.seqio_extra import INSTALL, missing_library
from t5x_like.training.earlier_runs import moved_class, moved_field

Target = Callable[..., Any]


class ImportedNames:
    """Modules that gin files import, one table for each file; the command line sees all tables.

    Args:
      imports: Import statements of each file. All are checked before the first module is imported.

    Raises:
      UserError: A module is neither t5x_like's nor trusted, or doesn't exist.
    """

    def __init__(self, imports: list[list[ImportStatement]]) -> None:
        for statement in (statement for table in imports for statement in table):
            if not is_importable(statement.module):
                raise UserError(
                    f"imports {statement.module!r}, which is not a part of t5x_like",
                    where=str(statement.origin),
                    source=statement.origin.source,
                    hint=f"add --module {statement.module} if you trust it",
                )
        self._tables = [{statement.symbol: _import(statement) for statement in table} for table in imports]

    def find(self, name: str, file_index: int, origin: Origin) -> Target:
        """Return the class or function ``name`` of a file; a name not imported there is looked up in all imports.

        Args:
          name: Name as written, such as ``t5.T5Config``.
          file_index: Index of the file's import table.
          origin: Place of the name, for messages.

        Raises:
          UserError: The name is unknown or ambiguous, or is no configuration.
        """
        target = self._imported(name, file_index, origin)
        if not is_nameable(target):
            raise UserError(
                f"{name} is no configuration, so gin files can't name it",
                where=str(origin),
                source=origin.source,
                hint="name a configuration class of t5x_like, or a class or function of a module that --module names",
            )
        return target

    def _imported(self, name: str, file_index: int, origin: Origin) -> Target:
        symbol, *attributes = name.split(".")
        if symbol in self._tables[file_index] and attributes:
            return self._walk(self._tables[file_index][symbol], name, attributes, origin)
        targets = {id(target): target for known, target in self._everything() if _ends_with(known, name)}
        if len(targets) == 1:
            return next(iter(targets.values()))
        if targets:
            choices = ", ".join(
                sorted(f"{target.__module__}.{target.__qualname__}" for target in targets.values())
            )
            raise UserError(
                f"{name!r} can mean several things: {choices}", where=str(origin), source=origin.source
            )
        raise UserError(
            f"unknown name {name!r}", where=str(origin), source=origin.source, hint=self._hint(name)
        )

    def _walk(self, module: object, name: str, attributes: list[str], origin: Origin) -> Target:
        target = module
        for index, attribute in enumerate(attributes):
            if not hasattr(target, attribute):
                prefix = ".".join(name.split(".")[: index + 1])
                known = [known for known, _ in _public(target, prefix)]
                moved = moved_class(getattr(target, "__name__", ""), attribute)
                hint = f"it is in {moved} now" if moved else nearest_or_all(name, known)
                raise UserError(
                    f"{prefix} has no {attribute!r}", where=str(origin), source=origin.source, hint=hint
                )
            target = getattr(target, attribute)
        if not callable(target):
            raise UserError(
                f"{name} is neither a class nor a function", where=str(origin), source=origin.source
            )
        return target

    def _everything(self) -> Iterator[tuple[str, Target]]:
        for table in self._tables:
            for symbol, module in table.items():
                yield from _public(module, symbol)

    def _hint(self, name: str) -> str:
        known = {known for known, _ in self._everything()}
        short = {known.rsplit(".", 1)[-1] for known in known}
        hint = nearest(name, known) or nearest(name.rsplit(".", 1)[-1], short)
        return hint or "import its module at the top of the file: from package import module"


def parameters_of(target: Target) -> dict[str, inspect.Parameter]:
    """Return the parameters by name; empty if the signature is unavailable."""
    try:
        return dict(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return {}


def check_parameter(target: Target, parameter: str, origin: Origin) -> None:
    """Raise a ``UserError`` if a class or function has no such parameter.

    Args:
      target: Class or function.
      parameter: Name of the parameter.
      origin: File and line of the binding.
    """
    parameters = parameters_of(target)
    if parameter in parameters or any(known.kind is known.VAR_KEYWORD for known in parameters.values()):
        return
    moved = moved_field(target, parameter)
    raise UserError(
        f"{short_name(target)} has no parameter {parameter!r}",
        where=str(origin),
        source=origin.source,
        hint=f"it is {moved} now" if moved else nearest_or_all(parameter, parameters),
    )


def short_name(target: Target) -> str:
    """Return the module's last word and the name: ``t5.T5Config``."""
    return f"{target.__module__.rsplit('.', 1)[-1]}.{target.__qualname__}"


def import_module(name: str, *, where: str, source: str = "") -> ModuleType:
    """Import a module that a user named.

    Args:
      name: Dotted name.
      where: Place of the name, for messages.
      source: The line with the name, for messages.

    Raises:
      UserError: The module doesn't exist, or it needs one that isn't installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if not (name == missing or name.startswith(f"{missing}.")):
            raise UserError(
                f"{name} needs the module {missing!r}, which is not installed",
                where=where,
                hint=INSTALL if missing_library(error) else "",
            ) from error
        parent, _, last = name.rpartition(".")
        if parent and hasattr(_import_or_none(parent), last):
            hint = f"{last!r} is not a module: import {parent} and write {parent.rsplit('.', 1)[-1]}.{last}"
        elif moved := moved_class(name):
            hint = f"what it had is in {moved} now"
        else:
            hint = "is it misspelt? A module of your own is looked for in the working directory"
        raise UserError(f"there is no module {name!r}", where=where, source=source, hint=hint) from error


def _import(statement: ImportStatement) -> ModuleType:
    module = import_module(statement.module, where=str(statement.origin), source=statement.origin.source)
    return importlib.import_module(statement.symbol) if statement.whole_path else module


def _import_or_none(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _public(module: object, prefix: str) -> Iterator[tuple[str, Target]]:
    for name, value in vars(module).items():
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
            home = getattr(value, "__module__", "")
            own = getattr(module, "__name__", home)
            if home == own or home.startswith(f"{own}."):  # a package's names may come from its modules
                yield f"{prefix}.{name}", value


def _ends_with(known: str, name: str) -> bool:
    return known == name or known.endswith(f".{name}")
