"""One call fine-tunes on a table, and returns a model whose run the command line knows."""

import csv
from pathlib import Path

import pytest

import t5x_like
from t5x_like.cli.main import main
from t5x_like.gin_config.user_error import UserError

FEW = {
    "TRAIN_STEPS": 40,
    "WARMUP_STEPS": 4,
    "EVALUATE_EVERY_STEPS": 0,
    "SAVE_EVERY_STEPS": 0,
    "LEARNING_RATE": 3e-3,
}


def write_rows(file: Path, numbers: range) -> None:
    rows = [
        [
            f"{'the king went up to the mountain' if each % 2 else 'his people stood by the river'} {each}",
            each % 2,
        ]
        for each in numbers
    ]
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([["text", "label"], *rows])


def test_a_model_learns_predicts_and_evaluates_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.csv", range(64))
    write_rows(tmp_path / "test.csv", range(100, 110))
    model = t5x_like.fine_tune(
        None, train="rows.csv", text="text", label="label", directory="kings_and_people", settings=FEW
    )
    assert "2 classes" in capsys.readouterr().out
    assert model.predict(["the king went up to the mountain", "his people stood by the river"]) == ["1", "0"]
    assert model.predict("the king went up to the mountain") == "1"
    assert model.evaluate("test.csv")["accuracy"] == 100.0
    assert set(model.evaluate().values()) == {100.0}
    monkeypatch.chdir(tmp_path.parent)
    assert main(["evaluate", "--checkpoint", model.run]) == 0
    with pytest.raises(UserError, match="exists already"):
        t5x_like.fine_tune(None, train=tmp_path / "rows.csv", directory=model.project)


def test_an_absent_column_is_named_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.csv", range(64))
    with pytest.raises(UserError, match=r"label=labels: rows\.csv has no such column"):
        t5x_like.fine_tune(None, train="rows.csv", label="labels")
    assert [file.name for file in tmp_path.iterdir()] == ["rows.csv"]
