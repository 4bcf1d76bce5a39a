"""Audio needs neither JAX nor, before a file is opened, the libraries of its extra."""

import pkgutil
import subprocess
import sys

import t5x_like.audio


def test_modules_of_audio_import_without_the_extra_and_without_jax():
    modules = [module.name for module in pkgutil.iter_modules(t5x_like.audio.__path__, "t5x_like.audio.")]
    assert len(modules) > 10
    program = f"""
import importlib, sys
for absent in ("soundfile", "soxr", "jiwer", "jax"):
    sys.modules[absent] = None
for name in {[*modules, "t5x_like.text.tasks.speech_table", "t5x_like.text.metrics.by_name"]!r}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
