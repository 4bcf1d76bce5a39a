"""The core runs on machines that have JAX and Flax and nothing for text or configuration."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import t5x_like

CORE = ("model", "optimizers", "partitioning", "inference", "checkpoints", "pretrained")


def core_modules() -> list[str]:
    results = ["t5x_like.batch", "t5x_like.io.files", "t5x_like.training.step", "t5x_like.training.losses"]
    for package in CORE:
        path = f"{t5x_like.__path__[0]}/{package}"
        results += [module.name for module in pkgutil.walk_packages([path], f"t5x_like.{package}.")]
    return results


def test_the_core_imports_without_tensorflow_seqio_or_gin():
    program = f"""
import importlib, sys
for absent in ("tensorflow", "tensorflow_text", "tensorflow_datasets", "seqio", "gin"):
    sys.modules[absent] = None
for name in {core_modules()!r}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_costs_nothing():
    program = (
        "import sys, t5x_like; print([n for n in ('jax', 'flax', 'tensorflow', 'gin') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_public_names_are_listed_typed_and_documented():
    source = Path(t5x_like.__file__).read_text()
    for_checkers = {
        name.name: node.module.removeprefix("t5x_like.")
        for block in ast.parse(source).body
        if isinstance(block, ast.If)
        for node in block.body
        for name in node.names
    }
    assert for_checkers == t5x_like._MODULES
    assert set(t5x_like.__all__) == {"__version__", *for_checkers} <= set(dir(t5x_like))
    for name in for_checkers:
        assert getattr(t5x_like, name).__doc__, name
    assert (Path(t5x_like.__file__).parent / "py.typed").exists()


def test_an_unknown_name_is_refused_as_in_any_module():
    assert not hasattr(t5x_like, "tain")
    assert importlib.import_module("t5x_like.version").__version__ == t5x_like.__version__
