"""Figures of the code base: what counts as a lookup, a probe, a cast and a small file."""

import ast
from pathlib import Path

import pytest

from benchmarks.code_figures import (
    SourceFile,
    any_in_signatures,
    figures,
    num_casts,
    num_probes,
    registry_lookups,
)


def _module(text: str) -> SourceFile:
    return SourceFile(name="t5x_like.example", text=text, tree=ast.parse(text))


def test_uses_of_the_registry_are_lookups_unless_they_fill_it() -> None:
    module = _module(
        """from t5x_like.text import registry
from t5x_like.text.registry import Definition, task

registry.register([])
known = task("a")
splits = [registry.splits_of(name) for name in registry.names_of_tasks("b")]
tasks = map(registry.task, names)
other.registry.task("c")
definition: registry.Definition
"""
    )
    assert registry_lookups(module) == [5, 6, 6, 7]


def test_another_registry_is_none_of_tasks() -> None:
    assert registry_lookups(_module("from lm_eval.api import registry\nregistry.get_model('a')\n")) == []


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("def f(self, a: int) -> str: ...", False),
        ("def f(*, a: dict[str, Any]) -> str: ...", True),
        ("def f(**settings: Any) -> str: ...", True),
        ("def f() -> 'list[Any]': ...", True),
        ("async def f(a: typing.Any): ...", True),
        ("def f(a: Anything): ...", False),
    ],
)
def test_any_is_found_anywhere_in_a_signature(signature: str, expected: bool) -> None:
    assert list(any_in_signatures(_module(signature))) == [expected]


def test_probes_are_counted_on_configurations_only() -> None:
    module = _module("getattr(experiment.model, 'a', 0)\nhasattr(config, 'b')\ngetattr(task, 'c')\n")
    assert num_probes(module) == 2


def test_casts_are_variables_and_no_fields() -> None:
    text = "class A:\n    field: Any = None\n    def f(self):\n        model: Any = self.model\nx: Any\n"
    assert num_casts(_module(text)) == 1


def test_a_checkout_has_all_figures(tmp_path: Path) -> None:
    files = {
        "t5x_like/training/experiment.py": "class Experiment:\n    model: int\n    data: str = ''\n",
        "t5x_like/training/train.py": "from t5x_like.text import registry\nfrom t5x_like.training import step\n\n"
        "registry.names()\n",
        "t5x_like/training/step.py": 'class HeadPlan:\n    """A plan."""\n' + "\n" * 100,
        "t5x_like/text/registry.py": "from t5x_like.training.experiment import Experiment\n\n\n"
        "def names(a: int):\n    return isinstance(a, int)\n",
        "gin/models/tiny.gin": "A = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    result = figures(tmp_path)
    assert result == {
        "package files": 4,
        "package lines": 3 + 4 + 102 + 5,
        "lines of docstrings": 1,
        "public functions of two or more parameters without Args": 0,
        "public names without docstring": 2,
        "gin files": 1,
        "lookups in the registry of tasks": 1,
        "files that look up in the registry": 1,
        "calls of isinstance": 1,
        "getattr and hasattr on configurations": 0,
        "functions": 1,
        "functions with Any in the signature, percent": 0.0,
        "variables cast by ': Any ='": 0,
        "lines with ': Any ='": 0,
        "fields of Experiment": 2,
        "lines of training/train.py": 4,
        "own modules imported by training/train.py": 2,
        "lines of training/step.py": 102,
        "own modules imported by training/step.py": 0,
        "classes named Head*": 1,
        "classes named *Plan*": 1,
        "files of at most 80 lines with one importer": 2,
    }
