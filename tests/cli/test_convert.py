"""Hugging Face weights to a run directory and back: nothing is lost."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from t5x_like.cli.main import main


@pytest.mark.parametrize("name", ["t5_v10", "t5_v11"])
def test_there_and_back_gives_the_same_weights(golden: Path, tmp_path: Path, name: str) -> None:
    source, run, back = golden / "models" / name, tmp_path / "run", tmp_path / "back"
    assert main(["convert", "--from", str(source), "--to", str(run)]) == 0
    assert main(["convert", "--from", str(run), "--to", str(back), "--export", "hf"]) == 0
    before, after = load_file(source / "model.safetensors"), load_file(back / "model.safetensors")
    assert set(before) >= set(after)
    for weight, values in after.items():
        np.testing.assert_array_equal(values, before[weight])


def test_a_directory_in_use_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("mine")
    assert main(["convert", "--from", str(tmp_path), "--to", str(tmp_path / "used")]) == 2
    assert "exists already; nothing was written" in capsys.readouterr().err


def test_what_is_no_model_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--from", str(tmp_path / "none"), "--to", str(tmp_path / "new")]) == 2
    assert main(["convert", "--from", str(tmp_path), "--to", str(tmp_path / "new")]) == 2
    assert "is not a Hugging Face model directory" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
