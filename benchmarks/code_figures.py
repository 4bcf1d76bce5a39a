"""Figures of the code base's size and coupling, for records of decisions.

    python -m benchmarks.code_figures [FOLDER] [--before FOLDER --before_commit COMMIT --output FILE]

It prints a table of a checkout. ``--before`` is an earlier checkout, whose figures come next to it. ``--output`` keeps
both.
"""

import argparse
import ast
import collections
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.code_structure import PACKAGE, CodeStructure, measure
from benchmarks.machine import about
from benchmarks.public_docstrings import public_names, without_args, without_docstring
from t5x_like.io.files import write_json

_REGISTRY = f"{PACKAGE}.text.registry"
# Functions of the registry that ask it nothing: they fill it.
_REGISTRATIONS = {"register", "connect"}
# Names of variables and attributes that hold a model, its configuration or that of a run.
_CONFIGURATIONS = {"config", "model", "experiment", "configuration", "model_config"}
_FEW_LINES = 80
_NodeT = TypeVar("_NodeT", bound=ast.AST)


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A module of the package.

    Attributes:
      name: Name of the module.
      text: Its source.
      tree: The parsed source.
    """

    name: str
    text: str
    tree: ast.Module

    @property
    def num_lines(self) -> int:
        """Number of lines."""
        return len(self.text.splitlines())

    def nodes(self, kind: type[_NodeT]) -> Iterator[_NodeT]:
        """Yield the nodes of a kind."""
        return (node for node in ast.walk(self.tree) if isinstance(node, kind))


def figures(root: Path) -> dict[str, float]:
    """Return all figures of a checkout by their names.

    Args:
      root: Folder of the checkout.
    """
    files = _source_files(root)
    modules = list(files.values())
    structure = measure(root)
    lookups = {each.name: registry_lookups(each) for each in modules if each.name != _REGISTRY}
    signatures = [shows_any for each in modules for shows_any in any_in_signatures(each)]
    classes = [node.name for each in modules for node in each.nodes(ast.ClassDef)]
    names = public_names(root)
    return {
        "package files": len(modules),
        "package lines": sum(each.num_lines for each in modules),
        "lines of docstrings": sum(map(num_docstring_lines, modules)),
        "public functions of two or more parameters without Args": len(without_args(names)),
        "public names without docstring": len(without_docstring(names)),
        "gin files": sum(1 for _ in (root / "gin").rglob("*.gin")),
        "lookups in the registry of tasks": sum(map(len, lookups.values())),
        "files that look up in the registry": sum(map(bool, lookups.values())),
        "calls of isinstance": structure.num_isinstance,
        "getattr and hasattr on configurations": sum(map(num_probes, modules)),
        "functions": len(signatures),
        "functions with Any in the signature, percent": round(100 * sum(signatures) / len(signatures), 1),
        "variables cast by ': Any ='": sum(map(num_casts, modules)),
        "lines with ': Any ='": sum(each.text.count(": Any = ") for each in modules),
        "fields of Experiment": num_fields(modules, "Experiment"),
        **_about_modules(files, structure, ("train", "step")),
        "classes named Head*": sum(name.startswith("Head") for name in classes),
        "classes named *Plan*": sum("Plan" in name for name in classes),
        f"files of at most {_FEW_LINES} lines with one importer": num_small_with_one_importer(
            modules, structure
        ),
    }


def num_docstring_lines(module: SourceFile) -> int:
    """Return the number of lines of a module that are docstrings."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    strings = [
        node.body[0]
        for kind in owners
        for node in module.nodes(kind)
        if ast.get_docstring(node, clean=False) is not None
    ]
    return sum((each.end_lineno or each.lineno) - each.lineno + 1 for each in strings)


def registry_lookups(module: SourceFile) -> list[int]:
    """Return the line of each use of a function of the registry, called or passed on, that isn't a registration.

    Args:
      module: Module that may import the registry, or functions of it.
    """
    names, functions = set[str](), set[str]()
    for node in module.nodes(ast.ImportFrom):
        for alias in node.names:
            if f"{node.module}.{alias.name}" == _REGISTRY:
                names.add(alias.asname or alias.name)
            elif node.module == _REGISTRY and alias.name not in _REGISTRATIONS:
                functions.add(alias.asname or alias.name)
    attributes = (
        node
        for node in module.nodes(ast.Attribute)
        if isinstance(node.value, ast.Name)
        and node.value.id in names
        and node.attr.islower()  # no class
        and node.attr not in _REGISTRATIONS
    )
    calls = (
        node
        for node in module.nodes(ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id in functions
    )
    return sorted(node.lineno for node in (*attributes, *calls))


def any_in_signatures(module: SourceFile) -> Iterator[bool]:
    """Yield for each function whether a parameter or the result has a type with ``Any`` in it."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            spec = node.args
            parameters = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
            types = [*(each.annotation for each in parameters if each is not None), node.returns]
            yield any(annotation is not None and _has_any(annotation) for annotation in types)


def num_probes(module: SourceFile) -> int:
    """Return the number of ``getattr`` and ``hasattr`` on the configuration of a model or run."""
    return sum(
        _last_name(node.func) in ("getattr", "hasattr")
        and bool(node.args)
        and _last_name(node.args[0]) in _CONFIGURATIONS
        for node in module.nodes(ast.Call)
    )


def num_casts(module: SourceFile) -> int:
    """Return the number of variables that a value is given to as ``Any``; fields of classes don't count."""
    in_classes = {statement for node in module.nodes(ast.ClassDef) for statement in node.body}
    return sum(
        _last_name(node.annotation) == "Any" and node.value is not None and node not in in_classes
        for node in module.nodes(ast.AnnAssign)
    )


def num_fields(modules: Iterable[SourceFile], name: str) -> int:
    """Return the number of fields of the dataclass of that name.

    Args:
      modules: Modules, one of which defines it.
      name: Name of the class.
    """
    (definition,) = (node for each in modules for node in each.nodes(ast.ClassDef) if node.name == name)
    return sum(isinstance(statement, ast.AnnAssign) for statement in definition.body)


def num_small_with_one_importer(modules: Iterable[SourceFile], structure: CodeStructure) -> int:
    """Return the number of small modules that one other module imports.

    Args:
      modules: All modules.
      structure: Imports of each module.
    """
    importers = collections.Counter(target for targets in structure.imports.values() for target in targets)
    return sum(each.num_lines <= _FEW_LINES and importers[each.name] == 1 for each in modules)


def _about_modules(
    files: dict[str, SourceFile], structure: CodeStructure, names: Iterable[str]
) -> dict[str, float]:
    results: dict[str, float] = {}
    for name in names:
        module = f"{PACKAGE}.training.{name}"
        results[f"lines of training/{name}.py"] = files[module].num_lines
        results[f"own modules imported by training/{name}.py"] = len(structure.imports[module])
    return results


def _source_files(root: Path) -> dict[str, SourceFile]:
    files = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        name = re.sub(r"\.__init__$", "", ".".join(path.relative_to(root).with_suffix("").parts))
        text = path.read_text(encoding="utf-8")
        files[name] = SourceFile(name=name, text=text, tree=ast.parse(text))
    return files


def _has_any(annotation: ast.AST) -> bool:
    """Return True for a type with ``Any`` in it, also one that is written in quotes."""
    return any(
        _last_name(node) == "Any"
        or (isinstance(node, ast.Constant) and re.search(r"\bAny\b", str(node.value)) is not None)
        for node in ast.walk(annotation)
    )


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def main() -> None:
    """Print the figures of a checkout, and keep them where a file is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", default=".", type=Path, help="the checkout (this folder)")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="an earlier checkout")
    parser.add_argument("--before_commit", default="", metavar="COMMIT", help="commit of --before")
    parser.add_argument("--output", metavar="FILE", help="keep the figures in this file")
    arguments = parser.parse_args()
    now = figures(arguments.folder)
    before = figures(arguments.before) if arguments.before else {}
    for name, value in now.items():
        earlier = f"{before[name]:>10,}" if before else ""
        print(f"{name:48} {earlier} {value:>10,}")
    if arguments.output:
        record = {"before_commit": arguments.before_commit, "before": before, "now": now}
        write_json(arguments.output, {**about(), **record})


if __name__ == "__main__":
    main()
