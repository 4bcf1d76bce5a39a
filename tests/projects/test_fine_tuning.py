"""One call fine-tunes on a table, and returns a model whose run the command line knows."""

import csv
from pathlib import Path

import pytest

import t5x_like
from t5x_like.cli.main import main
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import read_json, read_jsonl
from t5x_like.projects.project import TableChoices, project_of_table

FEW = {
    "TRAIN_STEPS": 40,
    "WARMUP_STEPS": 4,
    "EVALUATE_EVERY_STEPS": 0,
    "SAVE_EVERY_STEPS": 0,
    "EVALUATE_EXAMPLES": 4,
    "LEARNING_RATE": 3e-3,
}


def write_rows(file: Path, numbers: range, *, has_names: bool = True) -> None:
    rows = [
        [
            f"{'the king went up to the mountain' if each % 2 else 'his people stood by the river'} {each}",
            each % 2,
        ]
        for each in numbers
    ]
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([*[["text", "label"]] * has_names, *rows])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> t5x_like.FineTunedModel:
    """A model that learned which of two beginnings a text has, from a table without names of columns."""
    folder = tmp_path_factory.mktemp("fine_tuning")
    write_rows(folder / "rows.csv", range(64), has_names=False)
    return t5x_like.fine_tune(
        None,
        train=folder / "rows.csv",
        columns=("text", "label"),
        text="text",
        label="label",
        directory=folder / "kings",
        settings=FEW,
    )


@pytest.fixture(autouse=True)
def _in_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


KING, PEOPLE = "the king went up to the mountain", "his people stood by the river"


def test_a_model_predicts_and_evaluates_another_file(model: t5x_like.FineTunedModel) -> None:
    write_rows(Path("test.csv"), range(100, 110))
    assert "2 classes" in " ".join(model.report)
    assert model.predict([KING, PEOPLE]) == ["1", "0"]
    assert model.predict(KING) == "1"
    assert model.evaluate("test.csv")["accuracy"] == 100.0
    with pytest.raises(UserError, match="exists already"):
        t5x_like.fine_tune(None, train="test.csv", directory=model.project)


def test_scores_are_those_of_the_command(model: t5x_like.FineTunedModel) -> None:
    assert main(["evaluate", "--checkpoint", model.run, "--output_dir", "scores"]) == 0
    command = read_json(Path("scores/scores.json"), dict)["tasks"][model.task]["scores"]
    assert model.evaluate() == command
    entry = read_json(Path(f"{model.run}/evaluation/scores.json"), dict)["tasks"][model.task]
    assert entry["examples"] == 12  # training evaluates four of them
    assert model.evaluate(f"{model.project}/data/validation.jsonl") == command
    table = [["text", "label"], *([KING, index % 5 and 1] for index in range(10))]
    with Path("wrong.csv").open("w", newline="") as file:
        csv.writer(file).writerows(table)
    assert model.evaluate("wrong.csv")["accuracy"] == 80.0


def test_predictions_are_those_of_the_command_for_a_table_its_rows_and_its_texts(
    model: t5x_like.FineTunedModel,
) -> None:
    write_rows(Path("new.csv"), range(200, 220))
    assert main(["predict", model.run, "--input", "new.csv", "--output", "new.jsonl", "--scores"]) == 0
    command = list(read_jsonl("new.jsonl"))
    predictions = [row["prediction"] for row in command]
    assert set(predictions) == {"0", "1"}
    assert model.predict("new.csv") == model.predict(Path("new.csv")) == predictions
    assert model.predict(command) == predictions  # which have a column of predictions
    assert model.predict([row["text"] for row in command]) == predictions
    assert model.predict(command[3]) == predictions[3]
    for row, predicted in zip(command, model.predict("new.csv", scores=True), strict=True):
        assert predicted.prediction == row["prediction"]
        assert predicted.probability == pytest.approx(row["probability"], abs=1e-6)
        assert predicted.scores == pytest.approx(row["scores"], abs=1e-6)


def test_a_table_without_names_of_columns_is_read_with_names_of_the_call(
    model: t5x_like.FineTunedModel,
) -> None:
    write_rows(Path("named.csv"), range(200, 206))
    write_rows(Path("nameless.csv"), range(200, 206), has_names=False)
    columns = ("text", "label")
    assert model.predict("nameless.csv", columns=columns) == model.predict("named.csv")
    assert model.evaluate("nameless.csv", columns=columns) == model.evaluate("named.csv")
    with pytest.raises(
        UserError, match=r"has no such column; .*\n  its first line is a row like the others; name"
    ):
        model.predict("nameless.csv")
    for refused in (lambda: model.predict([KING], columns=columns), lambda: model.evaluate(columns=columns)):
        with pytest.raises(UserError, match="columns are names for a table, and none is given"):
            refused()


def test_python_is_named_in_python() -> None:
    write_rows(Path("nameless.csv"), range(64), has_names=False)
    report = project_of_table("kings", TableChoices(data="nameless.csv")).report
    assert "name the columns: fine_tune(…, columns=('NAME', 'NAME', …))" in report[1]


def test_rows_that_cannot_be_used_are_named_with_the_users_columns_and_cut_ones_counted(
    model: t5x_like.FineTunedModel, caplog: pytest.LogCaptureFixture
) -> None:
    Path("empty.csv").write_text(f"text,label\n{KING},1\n ,0\n")
    with pytest.raises(ValueError, match=r"1 of 2 rows.*empty\.csv:3: column 'text' is empty"):
        model.predict("empty.csv")
    with pytest.raises(UserError, match=r"empty\.csv:3: 'text' is empty"):
        model.evaluate("empty.csv")
    with pytest.raises(ValueError, match="row 2: no column 'text'; the columns are body"):
        model.predict([KING, {"body": PEOPLE}])
    with pytest.raises(UserError, match="row 1 is int, and the model reads 'text'"):
        model.predict([7])  # pyright: ignore[reportArgumentType]
    model.predict(" ".join([KING] * 99))
    assert "1 rows are longer than the model's inputs and were cut" in caplog.text
    with pytest.raises(UserError, match=r"absent\.csv"):
        model.predict("absent.csv")
    Path("class.csv").write_text(f"text,label\n{KING},1\n{PEOPLE},2\n")
    with pytest.raises(UserError, match=r"1 of 2 rows.*class\.csv:3: 'label' has '2', .*: 0, 1"):
        model.evaluate("class.csv")


def test_an_absent_column_is_named_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    write_rows(tmp_path / "rows.csv", range(64))
    with pytest.raises(UserError, match=r"label=labels: rows\.csv has no such column"):
        t5x_like.fine_tune(None, train="rows.csv", label="labels")
    assert [file.name for file in tmp_path.iterdir()] == ["rows.csv"]
