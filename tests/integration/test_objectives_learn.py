"""Each objective's recipe, trained as it is, gets below what knowing nothing but frequencies would reach."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.objectives import RECIPES
from tests.references import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_every_loss_falls_below_its_trivial_baseline(name: str, tmp_path: Path) -> None:
    # In a process of its own: tests simulate eight devices and compile without optimisation.
    plain = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    command = [
        sys.executable,
        "-m",
        "benchmarks.objectives",
        name,
        "--output",
        str(tmp_path / "results.json"),
    ]
    subprocess.run(command, cwd=ROOT, env=plain, check=True)
    losses = json.loads((tmp_path / "results.json").read_text())[name]["losses"]
    assert "tokens" in losses
    for of, loss in losses.items():
        assert loss["cross_entropy"] < loss["baseline"], f"{name} learned nothing of {of}"
