"""Pages of the Python API, which mkdocstrings fills from docstrings."""

import ast
from pathlib import Path

import t5x_like

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "t5x_like"

# Packages whose parts have pages of their own. The command line has another page.
SPLIT = {"ancestors", "corpora", "model", "text"}
LEFT_OUT = {"cli"}

INTRODUCTION = """# Python API

```python
import t5x_like
```

These names are the public interface. Each is imported when it is first used. The pages of the packages have everything
else.

"""
# Title -> packages whose public names it has.
GROUPS = {
    "Checkpoints and generation": ("pretrained", "inference"),
    "Runs": ("training", "evaluation", "ancestors"),
    "Your own table": ("projects",),
    "Inside of a model": ("analysis",),
    "Data": ("text",),
    "Models": ("model",),
    "Optimizers and schedules": ("optimizers",),
    "Devices": ("partitioning",),
}


def public_names() -> dict[str, list[str]]:
    """Return the names that ``t5x_like`` exports, by the titles of ``GROUPS``."""
    modules: dict[str, str] = t5x_like._MODULES
    return {
        title: [name for name, module in modules.items() if module.partition(".")[0] in packages]
        for title, packages in GROUPS.items()
    }


def packages() -> list[str]:
    """Return the dotted names of packages that have a page."""
    names = []
    for folder in sorted(PACKAGE.iterdir()):
        if not (folder / "__init__.py").is_file() or folder.name in LEFT_OUT:
            continue
        names.append(folder.name)
        if folder.name in SPLIT:
            names += [f"{folder.name}.{part.parent.name}" for part in sorted(folder.glob("*/__init__.py"))]
    return names


def modules(package: str) -> list[str]:
    """Return the dotted names of a page's modules: those of its folder, and of folders without a page."""
    folder = PACKAGE.joinpath(*package.split("."))
    files = folder.glob("*.py") if package in SPLIT else folder.rglob("*.py")
    dotted = (
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files
    )
    return sorted(name for name in dotted if not _is_empty(name))


def _is_empty(module: str) -> bool:
    """Return whether a module has no documented public class or function of its own."""
    path = ROOT.joinpath(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    return not any(
        isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_" and ast.get_docstring(node)
        for node in ast.parse(file.read_text(encoding="utf-8")).body
    )


def pages() -> dict[str, str]:
    """Return the page of public names and the pages of packages."""
    groups = [
        f"## {title}\n\n" + "\n".join(f"::: t5x_like.{name}\n" for name in names)
        for title, names in public_names().items()
    ]
    found = {"reference/python/index.md": INTRODUCTION + "\n".join(groups)}
    for package in packages():
        members = modules(package)
        if members:
            parts = "\n".join(f"::: {module}\n    options:\n      heading_level: 2\n" for module in members)
            found[f"reference/python/{package.replace('.', '_')}.md"] = f"# {package}\n\n{parts}"
    return found
