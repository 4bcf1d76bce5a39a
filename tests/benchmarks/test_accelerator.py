"""The accelerator's benchmark runs where TensorFlow, seqio and gin are not installed."""

import json
import math
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
    command = [
        sys.executable,
        "-m",
        "benchmarks.accelerator",
        "--models",
        "tiny",
        "--steps",
        "1",
        "--unroll_layers",
    ]
    command += ["--attention", "blockwise", "--measure", "train", "decode", "agreement"]
    subprocess.run([*command, "--output", str(output)], check=True, cwd=ROOT, capture_output=True)
    report = json.loads(output.read_text())["models"]["tiny"]
    assert report["train"]["tokens_per_second"] > 0
    num_devices = math.prod(report["train"]["mesh"].values())
    assert report["train"]["model_flops"] == pytest.approx(
        num_devices * report["train"]["compiled_flops_per_device"], rel=0.05
    )
    assert report["decode"]["tokens_per_second"] > 0
    for errors in report["agreement"].values():
        assert errors["blockwise"] == pytest.approx(errors["plain"], rel=0.1)
