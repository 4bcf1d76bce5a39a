"""The accelerator's benchmark runs where TensorFlow, seqio and gin are not installed."""

import json
import subprocess
import sys

import pytest

from tests.references import ROOT


def test_it_imports_neither_tensorflow_nor_seqio_nor_gin():
    script = "import sys, benchmarks.accelerator; print({'tensorflow', 'seqio', 'gin'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_a_tiny_model_is_measured(tmp_path):
    output = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.accelerator", "--models", "tiny", "--steps", "1"]
    subprocess.run([*command, "--output", str(output)], check=True, cwd=ROOT, capture_output=True)
    found = json.loads(output.read_text())["models"]["tiny"]["t5x_like"]
    assert found["train"]["tokens_per_second"] > 0
    assert found["train"]["model_flops"] == pytest.approx(
        found["train"]["compiled_flops_per_device"], rel=0.01
    )
    assert found["decode"]["tokens_per_second"] > 0
