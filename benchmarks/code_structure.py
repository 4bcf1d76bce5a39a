"""Counts of the structure and the language of the code base, for records of decisions and for tests.

Run ``python benchmarks/code_structure.py [FOLDER]`` to print them for a checkout.
"""

import ast
import collections
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "t5x_like"
# Regular expressions of whole words that are private to this code base, and what to write instead.
PRIVATE_WORDS = {
    "told|tells|foretold|foretells?": "predict, report, say",
    "knobs?": "macro, setting",
    "whom": "which, or name the thing",
    "gone on|goes on|went on": "continue",
    "stands": "is, is in",
    "for ever": "indefinitely",
    "commonest": "most frequent",
    "beside": "next to, compared with",
    r"what is(?: \w+){0,2} of": "name the thing",
}
# Stems of words that JAX, seqio and transformers spell in the American way.
BRITISH_SPELLINGS = (
    r"\w*(?:normal|token|serial|recogn|initial|optim|capital|quant|random|general|material)is(?:e|ed|es|ing|ation)",
    r"\w*(?:behaviour|colour|neighbour|favour)\w*",
    r"(?:licences?|learnt|centred?|labelled|unlabelled|modelling|cancelled|utilisation)",
)
# Names that say nothing about a value; "number" is one where it is an index.
VAGUE_NAMES = ("asked", "found", "given", "ours", "taken", "theirs", "worded", "wording")
QUESTION_WORDS = ("What", "How", "Which", "Whether", "Where")
CODE = (PACKAGE, "tests", "benchmarks")
PROSE = (PACKAGE, "gin", "docs", "launch", "README.md")
_VAGUE = re.compile(rf"\b(?:{'|'.join(VAGUE_NAMES)}|number)\b")
_HYPOTHESIS = re.compile(r"from hypothesis import .*\bgiven\b")

# Classes of tasks and of head formats, by today's names and by those of the first edition.
TASKS_AND_HEADS = {
    *("BenchmarkTask", "TextTask", "PretrainingTask", "ChatTask", "FileTask", "HeadTask", "Mixture"),
    *("SequenceClassification", "Regression", "MultipleChoice", "CandidateRanking", "QuestionAnswering"),
    *("TokenClassification", "Classes", "Number", "Choices", "Candidates", "Spans", "TokenClasses"),
}


@dataclass(frozen=True)
class CodeStructure:
    """Counts over all Python files of the package.

    Attributes:
      num_lines: lines of all files.
      num_code_lines: those that hold code: no docstrings, comments and blank lines.
      imports: module name -> modules of the package that it imports, function-level and type-checking ones included.
      deferred_imports: ``path:line`` -> source line, for imports of the package inside functions.
      type_checking_blocks: ``path:line`` of every ``if TYPE_CHECKING``.
      num_isinstance: calls of ``isinstance``.
      num_task_and_head_tests: those that ask for the class of a task or a head format.
      files_by_name: file name -> paths, for names that occur more than once.
      classes_by_name: class name -> paths, for public names that are defined more than once.
    """

    num_files: int
    num_lines: int
    num_code_lines: int
    imports: dict[str, set[str]]
    deferred_imports: dict[str, str]
    type_checking_blocks: list[str]
    num_isinstance: int
    num_task_and_head_tests: int
    files_by_name: dict[str, list[str]] = field(repr=False)
    classes_by_name: dict[str, list[str]] = field(repr=False)


def measure(root: Path) -> CodeStructure:
    """Read every module below ``root / PACKAGE``."""
    paths = {_module_name(path.relative_to(root)): path for path in sorted((root / PACKAGE).rglob("*.py"))}
    imports: dict[str, set[str]] = {}
    deferred: dict[str, str] = {}
    type_checking: list[str] = []
    num_lines = num_code_lines = num_isinstance = num_type_tests = 0
    classes = collections.defaultdict(set)
    for name, path in paths.items():
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        num_lines += len(lines)
        tree = ast.parse(text)
        num_code_lines += _count_code_lines(text, tree)
        relative = str(path.relative_to(root))
        imports[name] = {target for node in ast.walk(tree) for target in _targets(node, paths)} - {name}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Import | ast.ImportFrom) and _targets(inner, paths):
                        deferred[f"{relative}:{inner.lineno}"] = lines[inner.lineno - 1]
            elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                type_checking.append(f"{relative}:{node.lineno}")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id == "isinstance":
                    num_isinstance += 1
                    num_type_tests += bool(_names_in(node.args[-1]) & TASKS_AND_HEADS)
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].add(relative)
    files = collections.defaultdict(list)
    for path in paths.values():
        files[path.name].append(str(path.relative_to(root)))
    return CodeStructure(
        num_files=len(paths),
        num_lines=num_lines,
        num_code_lines=num_code_lines,
        imports=imports,
        deferred_imports=deferred,
        type_checking_blocks=type_checking,
        num_isinstance=num_isinstance,
        num_task_and_head_tests=num_type_tests,
        files_by_name={n: result for n, result in files.items() if len(result) > 1 and n != "__init__.py"},
        classes_by_name={n: sorted(result) for n, result in classes.items() if len(result) > 1},
    )


def cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one module (Tarjan 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    results: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in sorted(imports.get(module, ())):
            if other not in order:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            component = [stack.pop()]
            while component[-1] != module:
                component.append(stack.pop())
            if len(component) > 1:
                results.append(sorted(component))

    sys.setrecursionlimit(10_000)
    for module in sorted(imports):
        if module not in order:
            visit(module)
    return results


def find_phrases(root: Path, phrases: Sequence[str]) -> list[str]:
    """Find regular expressions in all code and prose of a checkout, regardless of case and line breaks.

    Returns:
      ``path:line: match`` for each place.
    """
    pattern = re.compile(rf"\b(?:{'|'.join(phrases)})\b".replace(" ", r"\s+(?:#\s*)?"), re.IGNORECASE)
    results = []
    for path in _prose_files(root):
        text = path.read_text(encoding="utf-8")
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            results.append(f"{path.relative_to(root)}:{line}: {' '.join(match[0].split())}")
    return results


def docstrings(root: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield the path, first line and text of the package's docstrings."""
    for path in sorted((root / PACKAGE).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node)
                if docstring:
                    yield path, node.body[0].lineno, docstring


def docstrings_that_open_with(root: Path, words: Sequence[str]) -> list[str]:
    """Return ``path:line: first line`` of the package's docstrings whose first word is one of these."""
    return [
        f"{path.relative_to(root)}:{line}: {docstring.splitlines()[0]}"
        for path, line, docstring in docstrings(root)
        if re.split(r"\W", docstring, maxsplit=1)[0] in words
    ]


def vague_names(root: Path) -> list[str]:
    """Return ``path:line: name`` of vague names in the code of the package, its tests and benchmarks.

    They are those of ``VAGUE_NAMES``, and ``number`` as the variable of a loop over ``range`` or ``enumerate``.
    Numbers that ``enumerate(…, start=1)`` gives are for people. The ``given`` of Hypothesis is none of them.
    """
    results = []
    for path in sorted(path for name in CODE for path in (root / name).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not _VAGUE.search(text):
            continue
        names = set(VAGUE_NAMES) - ({"given"} if _HYPOTHESIS.search(text) else set())
        for node in ast.walk(ast.parse(text)):
            named = (getattr(node, part, None) for part in ("id", "attr", "arg", "name"))
            vague = [name for name in named if isinstance(name, str) and name in names]
            line = getattr(node, "lineno", 0)
            if isinstance(node, ast.For | ast.comprehension) and _is_named_number(node):
                vague, line = ["number"], node.target.lineno
            results += [f"{path.relative_to(root)}:{line}: {name}" for name in vague[:1]]
    return results


def _prose_files(root: Path) -> Iterator[Path]:
    """Yield the text files of the folders in ``PROSE``."""
    for name in PROSE:
        place = root / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and path.suffix in (".py", ".gin", ".md", ".sh", ".j2"):
                yield path


def _is_named_number(loop: ast.For | ast.comprehension) -> bool:
    """Return whether a loop calls its index ``number``."""
    target, values = loop.target, loop.iter
    if not isinstance(values, ast.Call) or not isinstance(values.func, ast.Name) or values.keywords:
        return False
    if values.func.id == "enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    return values.func.id in ("enumerate", "range") and isinstance(target, ast.Name) and target.id == "number"


def _count_code_lines(text: str, tree: ast.Module) -> int:
    layout = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in layout:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def _names_in(node: ast.AST) -> set[str]:
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return names | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def _module_name(path: Path) -> str:
    return re.sub(r"\.__init__$", "", ".".join(path.with_suffix("").parts))


def _targets(node: ast.AST, modules: dict[str, Path]) -> set[str]:
    """Return the modules of the package that an import statement names."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names if alias.name in modules}
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        return {name if name in modules else str(node.module) for name in names} & set(modules)
    return set()


def main() -> None:
    """Print the counts of a checkout."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    structure = measure(root)
    for label, value in {
        "files": structure.num_files,
        "lines": structure.num_lines,
        "lines of code": structure.num_code_lines,
        "import cycles": len(cycles(structure.imports)),
        "modules in cycles": sum(map(len, cycles(structure.imports))),
        "function-level imports of the package": len(structure.deferred_imports),
        "TYPE_CHECKING blocks": len(structure.type_checking_blocks),
        "isinstance calls": structure.num_isinstance,
        "type tests on tasks and heads": structure.num_task_and_head_tests,
        "file names that occur more than once": len(structure.files_by_name),
        "public class names that occur more than once": len(structure.classes_by_name),
        "private words": len(find_phrases(root, list(PRIVATE_WORDS))),
        "docstrings that open with a question word": len(docstrings_that_open_with(root, QUESTION_WORDS)),
    }.items():
        print(f"{label:45} {value:6,}")


if __name__ == "__main__":
    main()
