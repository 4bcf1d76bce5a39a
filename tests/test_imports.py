"""The core runs on machines that have JAX and Flax and nothing for text or configuration."""

import pkgutil
import subprocess
import sys

import t5x_like

CORE = ("model", "optimizers", "partitioning", "inference", "checkpoints", "pretrained")


def core_modules() -> list[str]:
    found = ["t5x_like.batch", "t5x_like.io.files", "t5x_like.training.step", "t5x_like.training.losses"]
    for package in CORE:
        path = f"{t5x_like.__path__[0]}/{package}"
        found += [module.name for module in pkgutil.walk_packages([path], f"t5x_like.{package}.")]
    return found


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
