"""The tutorials run as scripts, and their notebooks hold the same code with its outputs."""

import json
import os
import subprocess

import jupytext
import pytest

from docs.tutorials.make import FOLDER, NAMES
from tests.integration.programs import command
from tests.references import ROOT, xla_flags

SLOW = ("fine_tune_bert", "own_task", "pretrain_t5")


# A project of a user's own is also run by tests/cli/test_new.py, pretraining and fine-tuning by
# tests/integration/test_examples.py.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in NAMES]
)
def test_a_tutorial_runs(name, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "TMPDIR": str(tmp_path)}
    environment["XLA_FLAGS"] = xla_flags()  # one device, as a user has
    done = subprocess.run(
        command(FOLDER / f"{name}.py"),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_its_script_with_outputs(name):
    script = jupytext.read(FOLDER / f"{name}.py")
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text())
    assert ["".join(cell["source"]) for cell in notebook["cells"]] == [cell.source for cell in script.cells]
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    assert len(outputs) >= 4
    assert not any(output["output_type"] == "error" for output in outputs)
