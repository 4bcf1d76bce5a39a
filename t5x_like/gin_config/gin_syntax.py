"""Gin's statements as plain data, without gin: what a file says before anybody knows what it means."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Origin(NamedTuple):
    """Where a statement stands. ``file`` is None for the command line."""

    file: str | None
    line: int
    source: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "command line"


@dataclass(frozen=True)
class Reference:
    """``@scope/module.Name`` or, with ``call``, ``@scope/module.Name()``."""

    scopes: tuple[str, ...]
    name: str
    call: bool

    def __str__(self) -> str:
        return f"@{'/'.join((*self.scopes, self.name))}{'()' if self.call else ''}"


@dataclass(frozen=True)
class Macro:
    """``%NAME``."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


class Required:
    """``%gin.REQUIRED``: a value that whoever runs this has to give."""

    def __repr__(self) -> str:
        return "%gin.REQUIRED"


REQUIRED = Required()


class Binding(NamedTuple):
    """``scope/name.parameter = value``; a knob (``NAME = value``) has no parameter."""

    scope: str
    name: str
    parameter: str
    value: Any
    origin: Origin


class Import(NamedTuple):
    """``import a.b``, ``from a import b``, ``import a.b as c``: ``symbol`` is the name bound in the file."""

    module: str
    symbol: str
    whole_path: bool
    origin: Origin


class Include(NamedTuple):
    """``include 'other.gin'``."""

    file: str
    origin: Origin


class Block(NamedTuple):
    """``name:`` followed by indented bindings, which come as statements of their own."""

    name: str
    origin: Origin


Statement = Binding | Import | Include | Block


@dataclass
class Sources:
    """Everything that was read, in the order in which later statements overrule earlier ones."""

    bindings: list[tuple[Binding, int]] = field(
        default_factory=list
    )  # with the index of its file in `imports`
    blocks: list[tuple[Block, int]] = field(default_factory=list)
    imports: list[list[Import]] = field(default_factory=list)  # one list a file: imports don't leak
    files: list[str] = field(default_factory=list)
