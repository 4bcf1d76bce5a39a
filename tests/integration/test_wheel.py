"""The wheel, built and installed, works from another folder without the checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.references import ROOT, xla_flags

BERT = ROOT / "tests/fixtures/models/bert_seqcls"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the installed wheel."""
    wheels, folder = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _call([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT)], ROOT)
    (wheel,) = wheels.glob("t5x_like-*.whl")
    _call([*pip, "install", "--no-deps", "--target", str(folder), str(wheel)], ROOT)
    return folder


def _call(command: list[str], folder: Path, path: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["XLA_FLAGS"] = xla_flags()  # one device, as a user has
    environment |= {"PYTHONPATH": str(path), "PYTHONSAFEPATH": "1"} if path else {}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def test_templates_and_pages_are_installed(installed):
    for name in ("reports/templates/run_comparison.html.j2", "serving/pages/try_it.html"):
        assert (installed / "t5x_like" / name).is_file()


def test_tasks_are_listed(installed, tmp_path):
    printed = _call([sys.executable, str(installed / "bin/t5x-like"), "tasks", "list"], tmp_path, installed)
    assert "wordnet_definitions" in printed
    assert "glue_cola_v002" in printed


@pytest.mark.slow
def test_the_quickstarts_first_step_trains(installed, tmp_path):
    command = [
        *(sys.executable, str(installed / "bin/t5x-like"), "train"),
        *("--gin_file=gin/recipes/quickstart/pretrain.gin", "--model_dir", "run"),
        *(
            "--set",
            "TRAIN_STEPS=2",
            "--set",
            "BATCH_SIZE=2",
            "--set",
            "INPUTS_LENGTH=64",
            "--set",
            "TARGETS_LENGTH=24",
        ),
        *("--set", "LOG_EVERY_STEPS=1", "--set", "EVALUATE_EVERY_STEPS=0"),
    ]
    assert "step 2/2" in _call(command, tmp_path, installed)
    assert (tmp_path / "run/2").is_dir()


def test_hugging_face_weights_open(installed, tmp_path):
    code = (
        "import t5x_like, numpy as np\n"
        f"model = t5x_like.from_pretrained({str(BERT)!r})\n"
        "print(t5x_like.__file__, model(input_ids=np.array([[1, 2, 3]])).logits.shape)"
    )
    printed = _call([sys.executable, "-c", code], tmp_path, installed)
    assert str(installed) in printed
    assert "(1, " in printed
