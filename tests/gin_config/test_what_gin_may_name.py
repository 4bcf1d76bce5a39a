"""Gin files are data: they name configuration of t5x_like and modules that the user trusts, and call nothing else."""

import ast
import importlib
import os
from pathlib import Path

import bakery
import pytest
from bakery import PLAIN, Bakery

from t5x_like import configuration_names
from t5x_like.cli.main import main
from t5x_like.gin_config.configuration import load
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import write_text
from tests.references import ROOT

RECIPE = "from __gin__ import dynamic_registration\n"
VERBS = (
    ["config", "show"],
    ["config", "validate"],
    ["train", "--dry_run"],
    ["predict", "--task=any", "--input=x"],
    ["evaluate"],
    ["report"],
    ["model", "show"],
    ["tasks", "list"],
    ["cache", "any", "--output=cache"],
    ["corpus", "evaluation_texts", "any", "--output=out"],
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a module that shows that it was imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "traps.py").write_text("open('imported', 'w').close()\n")
    return tmp_path


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(verb[:2]))
def test_no_verb_imports_what_a_gin_file_names(
    verb: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        RECIPE
        + "import traps\nfrom t5x_like.training import experiment\nTASKS = (@traps.run(),)\nMODEL = 1\n"
    )
    (folder / "run.gin").write_text(text + "COMPARISON = None\n")
    assert main([*verb, "--gin_file=run.gin"]) == 2
    said = capsys.readouterr().err
    assert "run.gin:2: imports 'traps', which is not a part of t5x_like" in said
    assert "add --module traps if you trust it" in said
    assert not (folder / "imported").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "import os",
        "from os import path",
        "import os.path as t5x_like",
        "import subprocess",
        "import t5x_likely",
    ],
)
def test_modules_of_others_are_refused(statement: str, folder: Path) -> None:
    (folder / "run.gin").write_text(f"{PLAIN}{statement}\n")
    with pytest.raises(UserError, match=r"run\.gin:6: imports '.*', which is not a part of t5x_like"):
        load(["run.gin"], roots=[Bakery])


def test_nothing_is_imported_before_a_later_file_is_refused(folder: Path) -> None:
    (folder / "run.gin").write_text(f"{PLAIN}import bakery.not_there\ninclude 'more.gin'\n")
    (folder / "more.gin").write_text("import traps\n")
    with pytest.raises(UserError, match=r"more\.gin:1: imports 'traps'"):
        load(["run.gin"], roots=[Bakery])


REFUSED = [
    ("from t5x_like.io import files", "@files.write_text()"),
    ("from t5x_like.io import files", "@files.write_text"),
    ("from t5x_like.io import files", "@files.os.system()"),
    ("from t5x_like.io import files", "@files.json.loads()"),
    ("import t5x_like.io.files", "@t5x_like.io.files.write_text()"),
    ("from t5x_like.checkpoints import checkpoints", "@checkpoints.Checkpoints()"),
    ("from t5x_like.training import run_directory", "@run_directory.claim()"),
    ("from t5x_like.training import train", "@train.train()"),
    ("from t5x_like.sweep import run_pool", "@run_pool.subprocess.Popen()"),
    ("from t5x_like.reports import run_report", "@run_report.RunReport.write"),
    ("from t5x_like.evaluation import saved_runs", "@saved_runs.evaluate_run()"),
    ("import bakery", "@bakery.os.system()"),
]


@pytest.mark.parametrize(("statement", "value"), REFUSED)
def test_what_is_no_configuration_is_refused_by_name(
    statement: str, value: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bakery, "os", os, raising=False)  # a module of the user's that imports it
    name = value.removeprefix("@").removesuffix("()")
    (folder / "run.gin").write_text(f"{PLAIN}{statement}\nbakery.Bakery.street = {value}\n")
    with pytest.raises(
        UserError, match=rf"run\.gin:7: {name} is no configuration, so gin files can't name it"
    ):
        load(["run.gin"], roots=[Bakery])


def test_a_binding_of_what_is_no_configuration_is_refused_as_well(folder: Path) -> None:
    (folder / "run.gin").write_text(f"{PLAIN}from t5x_like.io import files\nfiles.write_text.path = 'x'\n")
    with pytest.raises(UserError, match=r"run\.gin:7: files\.write_text is no configuration"):
        load(["run.gin"], roots=[Bakery])


def test_a_flag_is_refused_too(folder: Path) -> None:
    (folder / "run.gin").write_text(f"{PLAIN}from t5x_like.io import files\n")
    with pytest.raises(UserError, match=r"command line: files\.write_text is no configuration"):
        load(["run.gin"], ["Bakery.street=@files.write_text()"], roots=[Bakery])


def test_a_trusted_module_is_trusted_with_its_package(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = folder / "my_lab"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tasks.py").write_text("")
    (package / "sizes.py").write_text("def width(): return 16\n")
    recipe = "include 'gin/models/t5_1_1/tiny.gin'\nfrom my_lab import sizes\nVOCAB_SIZE = 384\n"
    (folder / "run.gin").write_text(RECIPE + recipe + "t5.T5Config.model_dim = @sizes.width()\n")
    assert main(["model", "show", "run.gin", "--module=my_lab.tasks"]) == 0, capsys.readouterr().err


def test_no_configuration_class_does_more_than_check_its_fields() -> None:
    """A class that gin may call has no constructor of its own, and its check touches no file and no process."""
    effects = {
        "open",
        "write",
        "unlink",
        "mkdir",
        "subprocess",
        "system",
        "Popen",
        "import_module",
        "replace",
    }
    for path in (ROOT / "t5x_like").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef) or not _is_config(node):
                continue
            methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
            assert not methods.keys() & {"__init__", "__new__"}, (path, node.name)
            check = methods.get("__post_init__")
            names = {_name(each) for each in ast.walk(check)} if check else set()
            assert not names & effects, (path, node.name, names & effects)


def test_few_functions_are_configuration() -> None:
    for module in (
        "training.run_record",
        "text.benchmarks.catalogue",
        "text.vocabularies.opening",
        "training.start.starts",
        "text.tasks.text_tuples",
    ):
        importlib.import_module(f"t5x_like.{module}")
    functions = {each.__name__ for each in configuration_names._config_functions}
    assert functions == {
        "benchmark_task",
        "benchmark_tasks",
        "corpus_tasks",
        "initial_inputs",
        "padded_vocab_size",
        "recorded_value",
        "start_from",
        "text_tuples",
        "unimax_rates",
    }
    assert not configuration_names.is_nameable(write_text)


def _is_config(node: ast.ClassDef) -> bool:
    marks = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
    return any("dataclass" in each or each in ("config_class", "NamedTuple") for each in marks)


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
