"""The page of gin macros: their defaults in each kind of run, and the parameters that they set."""

import ast
import functools
import inspect
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "runs": ("Runs", "Files of `gin/runs`, one of which every recipe includes."),
    "hardware": (
        "Hardware",
        "Files of `gin/hardware`: the mesh and the compute type. A recipe includes one of them.",
    ),
}
INTRODUCTION = """# Gin macros

A macro is a name in capitals at the top of a gin file. Give another value by `--set BATCH_SIZE=64`, or in a gin file of
your own after its `include`. `t5x-like config show --gin_file=FILE` prints every value and the line it came from.

A macro can choose a row of a table, here `--set TASK=cola`. The chosen row gives its values in the table's
place; `include` names a gin file to read before them, or several. An unknown row is refused with the known ones.

```
TASK = %gin.REQUIRED
TABLE = {
    'TASK': ('MIXTURE', 'TRAIN_STEPS', 'include'),
    'cola': ('glue_cola_v002', 801,   None),
    'mnli': ('glue_mnli_v002', 36815, 'gin/runs/mnli_validation.gin'),
}
```
"""
_MACRO = re.compile(r"^([A-Z][A-Z0-9_]*) = (.*)$")
_BINDING = re.compile(r"^(?:[\w/]+/)?([\w.]+)\.(\w+) = %([A-Z][A-Z0-9_]*)\b")
_BLOCK = re.compile(r"^(?:[\w/]+/)?([\w.]+):$")
_PARAMETER = re.compile(r"^ +(\w+) = %([A-Z][A-Z0-9_]*)\b")


@dataclass
class Macro:
    """One macro of several gin files.

    Attributes:
      defaults: file -> value as written, such as ``128``, or ``required``.
      comment: the words after its value, of the first file that has some.
      parameters: ``Class.parameter`` that take its value.
    """

    defaults: dict[str, str] = field(default_factory=dict)
    comment: str = ""
    parameters: list[str] = field(default_factory=list)


def read_macros(files: list[Path]) -> dict[str, Macro]:
    """Return the macros of ``files`` by name, in the order in which they occur."""
    macros: dict[str, Macro] = defaultdict(Macro)
    uses: dict[str, list[str]] = defaultdict(list)
    for file in files:
        block = ""
        for line in file.read_text(encoding="utf-8").splitlines():
            block = _BLOCK.match(line)[1] if _BLOCK.match(line) else block  # type: ignore[index]
            if given := _MACRO.match(line):
                value, comment = _value_and_comment(given[2])
                macros[given[1]].defaults[file.stem] = value
                macros[given[1]].comment = macros[given[1]].comment or comment
            elif bound := _BINDING.match(line):
                uses[bound[3]].append(f"{bound[1]}.{bound[2]}")
            elif bound := _PARAMETER.match(line):
                uses[bound[2]].append(f"{block}.{bound[1]}")
    for name, macro in macros.items():
        macro.parameters = list(dict.fromkeys(uses[name]))
    return dict(macros)


def _value_and_comment(text: str) -> tuple[str, str]:
    """Split ``128  # rows`` into the value and the words; a ``#`` inside quotes belongs to the value."""
    value, _, comment = text.partition("  #")
    return ("required" if value.strip() == "%gin.REQUIRED" else value.strip()), comment.strip()


def pages() -> dict[str, str]:
    """Return the page of macros."""
    lines = [INTRODUCTION]
    for folder, (title, words) in FOLDERS.items():
        files = sorted((ROOT / "gin" / folder).glob("*.gin"))
        macros = read_macros(files)
        lines += [f"## {title}", "", words, "", "| macro | default | meaning |", "|---|---|---|"]
        lines += [
            f"| `{name}` | {_defaults(macro, len(files))} | {_meaning(macro)} |"
            for name, macro in sorted(macros.items())
        ]
        lines.append("")
    models = sorted((ROOT / "gin" / "models").glob("*.gin"))
    lines += [
        "## Models",
        "",
        "`gin/models/NAME/SIZE.gin` sets these, by `gin/models/NAME.gin`; each size file names its source.",
        "",
        "| macro | models | meaning |",
        "|---|---|---|",
    ]
    for name, macro in sorted(read_macros(models).items()):
        known = ", ".join(f"`{model}`" for model in sorted(macro.defaults))
        lines.append(
            f"| `{name}` | {'all' if len(macro.defaults) == len(models) else known} | {_meaning(macro)} |"
        )
    return {"reference/gin_macros.md": "\n".join([*lines, ""])}


def _defaults(macro: Macro, num_files: int) -> str:
    """Return one value where all files agree, otherwise the files of each value."""
    files_of: dict[str, list[str]] = defaultdict(list)
    for file, value in macro.defaults.items():
        files_of[value].append(file)
    words = [
        f"{_code(value)}" + ("" if len(files) == num_files else f" in {', '.join(files)}")
        for value, files in files_of.items()
    ]
    return "; ".join(words)


def _code(value: str) -> str:
    return value if value == "required" else f"`{value}`"


def _meaning(macro: Macro) -> str:
    """Return the comment and the parameters, with their documentation where there is no comment."""
    words = [macro.comment] if macro.comment else []
    if not words:
        documented = (attribute_documentation(parameter) for parameter in macro.parameters)
        words = [next(filter(None, documented), "")]
    if macro.parameters:
        words.append("sets " + ", ".join(f"`{parameter}`" for parameter in macro.parameters[:4]))
    text = "; ".join(filter(None, words))
    return text.replace("|", "\\|").replace("*", "\\*")


def attribute_documentation(parameter: str) -> str:
    """Return what the class's docstring says of ``module.Class.parameter``, or nothing."""
    module, class_name, name = parameter.rsplit(".", 2) if parameter.count(".") > 1 else ("", "", "")
    for file in sorted(_modules().get(module.rpartition(".")[2], [])):
        for node in ast.walk(_parsed(file)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == class_name:
                return _attribute(inspect.cleandoc(ast.get_docstring(node) or ""), name)
    return ""


def _attribute(docstring: str, name: str) -> str:
    """Return the words of ``name: words`` in a docstring's section, with the lines that are indented further."""
    found = re.search(rf"^  (?:  )?{name}: (.+(?:\n {{4,}}(?! *\w+: ).+)*)", docstring, re.M)
    return " ".join(found[1].split()).rstrip(".") if found else ""


@functools.cache
def _modules() -> dict[str, list[Path]]:
    """Return the files of each module name; a gin file names a module by its last part."""
    files: dict[str, list[Path]] = defaultdict(list)
    for file in (ROOT / "t5x_like").rglob("*.py"):
        files[file.parent.name if file.stem == "__init__" else file.stem].append(file)
    return files


@functools.cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))
