"""Gin's statements as plain data, before names are looked up. Imports no gin."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from t5x_like.nested_values import leaves_of

COMMAND_LINE = "command line"


class Origin(NamedTuple):
    """The place of a statement; ``file`` is None for the command line, ``line`` 0 for a default of the verb."""

    file: str | None
    line: int
    source: str = ""

    def __str__(self) -> str:
        if not self.file:
            return COMMAND_LINE
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, repr=False)
class ConfigurableReference:
    """``@scope/module.Name`` or, with ``call``, ``@scope/module.Name()``."""

    scopes: tuple[str, ...]
    name: str
    call: bool

    def __repr__(self) -> str:
        return f"@{'/'.join((*self.scopes, self.name))}{'()' if self.call else ''}"


@dataclass(frozen=True, repr=False)
class MacroReference:
    """``%NAME``."""

    name: str

    def __repr__(self) -> str:
        return f"%{self.name}"


class Required:
    """``%gin.REQUIRED``: a value that the user must give."""

    def __repr__(self) -> str:
        return "%gin.REQUIRED"


REQUIRED = Required()


class Setting(NamedTuple):
    """``--set NAME=text`` of the command line, or a plain flag that means the same.

    Attributes:
      flag: The flag as it was written, for messages.
    """

    name: str
    text: str
    flag: str


@dataclass(frozen=True)
class PlainText:
    """The value of a ``Setting`` until its type is known.

    Attributes:
      name: The macro or parameter that is set.
      literal: Gin's reading of the text; None too if gin can't read it.
      is_readable: True if gin can read the text.
    """

    name: str
    text: str
    literal: Any
    is_readable: bool

    def __str__(self) -> str:
        return self.text


class BindingStatement(NamedTuple):
    """``scope/name.parameter = value``; a macro (``NAME = value``) has no parameter."""

    scope: str
    name: str
    parameter: str
    value: Any
    origin: Origin


class ImportStatement(NamedTuple):
    """``import a.b``, ``from a import b``, ``import a.b as c``: ``symbol`` is the name bound in the file."""

    module: str
    symbol: str
    whole_path: bool
    origin: Origin


class IncludeStatement(NamedTuple):
    """``include 'other.gin'``."""

    file: str
    origin: Origin


class BlockStatement(NamedTuple):
    """``name:`` before indented bindings, which are separate statements."""

    name: str
    origin: Origin


Statement = BindingStatement | ImportStatement | IncludeStatement | BlockStatement


class GinTable(NamedTuple):
    """A table of a gin file.

    Attributes:
      key: Macro that chooses the row.
      columns: Macros and parameters that a row gives values to.
      rows: Values by the key's value.
      origin: Place of the table.
    """

    key: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Any, ...]]
    origin: Origin


@dataclass
class GinStatements:
    """All statements in reading order; later ones override earlier ones.

    Attributes:
      bindings: Each with the index of its file in ``imports``.
      blocks: Each with the index of its file in ``imports``.
      imports: One list for each file, since imports hold for their own file only.
      files: The files read.
      keys: Macros that choose rows of tables.
      open_tables: Tables whose macros have no value.
    """

    bindings: list[tuple[BindingStatement, int]] = field(default_factory=list)
    blocks: list[tuple[BlockStatement, int]] = field(default_factory=list)
    imports: list[list[ImportStatement]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    open_tables: list[GinTable] = field(default_factory=list)


def references_in(value: object) -> list[ConfigurableReference]:
    """Return the ``@references`` in a value, at any depth of tuples, lists and dicts."""
    return [leaf for leaf in leaves_of(value) if isinstance(leaf, ConfigurableReference)]


def macro_of(value: Any) -> str:
    """Return the name of the ``%macro`` that a value is; empty for other values."""
    return value.name if isinstance(value, MacroReference) else ""


def macros_in(value: object) -> list[str]:
    """Return the names of the ``%macros`` in a value, at any depth of tuples, lists and dicts."""
    return list(filter(None, map(macro_of, leaves_of(value))))
