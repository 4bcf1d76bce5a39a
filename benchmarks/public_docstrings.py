"""Public functions, methods and classes of the package whose docstrings lack something, for tests and counts."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_POINTER = re.compile(r"(?:See|Implement)s? `*[\w.]+`*\.?")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class PublicName:
    """A public function, method or class of the package.

    Attributes:
      location: Path and line, from the root of the repository.
      owner: Class of a method, "" for other definitions.
      node: Definition.
      inherited: Docstring of the method that a method overrides, or of one with the same name and parameters in a
        protocol or another member of a union; "" if there is none.
    """

    location: str
    owner: str
    node: Function | ast.ClassDef
    inherited: str

    @property
    def label(self) -> str:
        """Location and dotted name."""
        owner = f"{self.owner}." if self.owner else ""
        return f"{self.location}: {owner}{self.node.name}"

    @property
    def docstring(self) -> str:
        """Docstring without indent, "" if there is none."""
        return ast.get_docstring(self.node) or ""


def _parameters(node: ast.AST) -> list[str]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    arguments = node.args
    named = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    return [argument.arg for argument in named if argument and argument.arg not in ("self", "cls")]


def _definitions(body: list[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        elif isinstance(node, ast.If):
            yield from _definitions([*node.body, *node.orelse])


def _base_names(node: ast.ClassDef) -> list[str]:
    bases = [b.value if isinstance(b, ast.Subscript) else b for b in node.bases]
    return [
        b.attr if isinstance(b, ast.Attribute) else b.id
        for b in bases
        if isinstance(b, ast.Attribute | ast.Name)
    ]


def _is_overload_or_setter(node: ast.AST) -> bool:
    decorators = [ast.unparse(d) for d in getattr(node, "decorator_list", [])]
    return any(d.endswith((".setter", "overload")) for d in decorators)


def _has_args(docstring: str) -> bool:
    return re.search(r"^Args:$", docstring, re.MULTILINE) is not None


def public_names(root: Path) -> list[PublicName]:
    """Return public functions, classes and methods of the package.

    Args:
      root: Root of the repository.
    """
    modules = {path: ast.parse(path.read_text()) for path in sorted(root.glob("t5x_like/**/*.py"))}
    classes: dict[str, list[ast.ClassDef]] = {}
    for tree in modules.values():
        for node in _definitions(tree.body):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(node)

    def described(node: ast.ClassDef) -> dict[str, str]:
        own = {m.name: ast.get_docstring(m) for m in _definitions(node.body)}
        return inherited(node) | {name: text for name, text in own.items() if text}

    def inherited(node: ast.ClassDef) -> dict[str, str]:
        bases = [base for name in _base_names(node) for base in classes.get(name, []) if base is not node]
        return {name: text for base in bases for name, text in described(base).items()}

    methods = [
        (method, "Protocol" in _base_names(node))
        for nodes in classes.values()
        for node in nodes
        for method in _definitions(node.body)
    ]
    promised: dict[tuple[str, tuple[str, ...]], str] = {}
    for method, is_of_protocol in methods:
        text, key = ast.get_docstring(method) or "", (method.name, tuple(_parameters(method)))
        if _has_args(text) or (is_of_protocol and key not in promised):
            promised[key] = text
    names = []
    for path, tree in modules.items():
        for node in _definitions(tree.body):
            location = f"{path.relative_to(root)}:{node.lineno}"
            promise = promised.get(
                (node.name, tuple(_parameters(node))), ""
            )  # a module may implement a protocol
            names.append(PublicName(location=location, owner="", node=node, inherited=promise))
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            texts = inherited(node)
            for method in _definitions(node.body):
                base = texts.get(method.name, "")
                promise = promised.get((method.name, tuple(_parameters(method))), "")
                names.append(
                    PublicName(
                        location=f"{path.relative_to(root)}:{method.lineno}",
                        owner=node.name,
                        node=method,
                        inherited=base if _has_args(base) or not promise else promise,
                    )
                )
    return [n for n in names if not n.node.name.startswith("_") and not _is_overload_or_setter(n.node)]


def without_docstring(names: list[PublicName]) -> list[str]:
    """Return labels of names that neither have nor inherit a docstring."""
    return [name.label for name in names if not (name.docstring or name.inherited)]


def without_args(names: list[PublicName]) -> list[str]:
    """Return labels of functions with two or more parameters that describe none.

    Args:
      names: Public names; a method may inherit the section from a base class or protocol of the package.
    """
    return [
        name.label
        for name in names
        if len(_parameters(name.node)) > 1 and not _has_args(name.docstring) and not _has_args(name.inherited)
    ]


def pointers_alone(names: list[PublicName]) -> list[str]:
    """Return labels of names whose docstring only points to another one."""
    return [name.label for name in names if _POINTER.fullmatch(name.docstring)]
