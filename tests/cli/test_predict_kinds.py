"""Tables that ``t5x-like predict`` returns for every kind of task, in every format."""

import csv
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from t5x_like.cli.main import main
from t5x_like.evaluation.table_predictions import predict_table
from t5x_like.io.files import read_jsonl
from t5x_like.projects.fine_tuning import FineTunedModel
from t5x_like.projects.project import TableChoices
from t5x_like.training.evaluate import evaluate
from tests.cli.test_new_kinds_of_tables import (
    answers,
    checkpoint,
    numbers,
    sentence,
    tags,
    translations,
    write,
)
from tests.cli.untrained_runs import SMALL_MODERNBERT, SMALL_T5, project_with_run, share_predictors


def pairs(row: int) -> dict[str, Any]:
    return {"premise": sentence(row), "hypothesis": sentence(row + 1, 4), "label": ["no", "yes"][row % 2]}


KINDS = {row.__name__: row for row in (numbers, tags, answers, translations, pairs)}
WITHOUT_PROBABILITIES = ("numbers", "translations")
TABLE_FORMATS = ("csv", "tsv", "jsonl", "parquet")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kinds")


@pytest.fixture(autouse=True)
def _in_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module", autouse=True)
def _shared_predictors() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        share_predictors(patch)
        yield


@pytest.fixture(scope="module", params=list(KINDS))
def model(request: pytest.FixtureRequest, home: Path) -> FineTunedModel:
    """A model of each kind with fresh weights."""
    folder = home / request.param
    folder.mkdir()
    choices = TableChoices(data=write(folder, KINDS[request.param]))
    writes = request.param == "translations"
    settings = {"METRICS": ("sequence_accuracy",), **SMALL_T5} if writes else SMALL_MODERNBERT
    return project_with_run(home / f"table_with_{request.param}", choices, settings)


def kind_of(model: FineTunedModel) -> str:
    return model.task.removeprefix("table_with_")


def write_table(name: str, rows: list[dict[str, Any]]) -> str:
    """Write a table in the format of its name; CSV and TSV hold lists as JSON."""
    ending = name.rpartition(".")[2]
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), name)
    elif ending == "jsonl":
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [
            [json.dumps(cell) if isinstance(cell, list) else str(cell) for cell in row.values()]
            for row in rows
        ]
        with open(name, "w", newline="") as file:
            if ending == "csv":
                csv.writer(file).writerows([list(rows[0]), *lines])
            else:
                file.writelines("\t".join(line) + "\n" for line in [list(rows[0]), *lines])
    return name


def read_table(name: str) -> list[dict[str, Any]]:
    ending = name.rpartition(".")[2]
    if ending == "parquet":
        return pq.read_table(name).to_pylist()
    if ending == "jsonl":
        return list(read_jsonl(name))
    with open(name, newline="") as file:
        quoting = csv.QUOTE_NONE if ending == "tsv" else csv.QUOTE_MINIMAL
        return list(csv.DictReader(file, delimiter="\t" if ending == "tsv" else ",", quoting=quoting))


def test_all_formats_have_the_same_predictions_with_or_without_a_label(model: FineTunedModel) -> None:
    kind = kind_of(model)
    rows = [KINDS[kind](index) for index in range(40, 45)]
    label = list(rows[0])[-1]
    unlabeled = [{name: row[name] for name in row if name != label} for row in rows]
    assert main(["predict", model.run, "--input", write_table("a.jsonl", rows), "--output", "b.jsonl"]) == 0
    expected = read_table("b.jsonl")
    assert [{name: row[name] for name in rows[0]} for row in expected] == rows
    predictions = [row["prediction"] for row in expected]
    assert model.predict(rows) == model.predict("a.jsonl") == predictions
    assert model.predict(unlabeled[0]) == predictions[0]
    added = [name for name in expected[0] if name not in rows[0]]
    assert added == ["prediction"] + ["probability"] * (kind not in WITHOUT_PROBABILITIES)
    for ending in TABLE_FORMATS:
        table = write_table(f"unlabeled.{ending}", unlabeled)
        assert main(["predict", model.run, "--input", table, "--output", f"predicted.{ending}"]) == 0
        for row, right in zip(read_table(f"predicted.{ending}"), expected, strict=True):
            result, wanted = row["prediction"], right["prediction"]
            if ending in ("csv", "tsv"):
                wanted = " ".join(wanted) if isinstance(wanted, list) else str(wanted)
            assert result == wanted


def test_scores_of_all_answers_are_given_where_there_are_any(
    model: FineTunedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = kind_of(model)
    table = write_table("scored.jsonl", [KINDS[kind](index) for index in range(40, 43)])
    code = main(["predict", model.run, "--input", table, "--output", "scores.jsonl", "--scores"])
    if kind in WITHOUT_PROBABILITIES:
        assert code == 2
        assert "this model predicts a number or writes a text" in capsys.readouterr().err
        assert not Path("scores.jsonl").exists()
        return
    for row in read_table("scores.jsonl"):
        if kind == "answers":
            assert row["scores"][0]["score"] == max(each["score"] for each in row["scores"])
            assert {each["label"]: each["score"] for each in row["scores"]}[row["prediction"]] == row[
                "probability"
            ]
        elif kind == "pairs":
            assert row["probability"] == row["scores"][row["prediction"]]
        else:
            shares = [word[tag] for word, tag in zip(row["scores"], row["prediction"], strict=True)]
            assert shares == row["probability"]


@pytest.mark.slow
def test_an_ensemble_of_a_run_with_itself_predicts_the_same(model: FineTunedModel) -> None:
    table = write_table("twice.jsonl", [KINDS[kind_of(model)](index) for index in range(40, 43)])
    command = ["predict", model.run, "--input", table]
    assert main([*command, "--output", "alone.jsonl"]) == 0
    assert main([*command, "--output", "both.jsonl", "--ensemble", model.run]) == 0
    for alone, both in zip(read_table("alone.jsonl"), read_table("both.jsonl"), strict=True):
        prediction = alone["prediction"]
        close = pytest.approx(prediction) if isinstance(prediction, float) else prediction
        assert both["prediction"] == close


def test_a_killed_command_loses_and_doubles_no_row_of_a_parquet_table(
    model: FineTunedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("t5x_like.evaluation.table_predictions._BATCHES_AT_ONCE", 1)
    rows = [KINDS[kind_of(model)](index) | {"id": index} for index in range(1, 41)]
    table = write_table("whole.parquet", rows)
    command = ["predict", model.run, "--input", table]
    assert main([*command, "--output", "whole_out.parquet"]) == 0

    def killed(*arguments: Any, **options: Any) -> Any:
        predictor, read = arguments[0], type(arguments[0]).predict
        calls = iter(range(3))

        def predict(self: Any, rows: Any) -> Any:
            if next(calls) == 2:
                raise KeyboardInterrupt
            return read(self, rows)

        with monkeypatch.context() as patch:
            patch.setattr(type(predictor), "predict", predict)
            return predict_table(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr("t5x_like.cli.predicted_rows.predict_table", killed)
        assert main([*command, "--output", "killed.parquet"]) == 130
    assert not Path("killed.parquet").exists()
    assert main([*command, "--output", "killed.parquet"]) == 0
    assert read_table("killed.parquet") == read_table("whole_out.parquet")
    assert [row["id"] for row in read_table("killed.parquet")] == list(range(1, 41))


BLANK = {
    "numbers": ({"review": "  "}, "column 'review' is empty"),
    "tags": ({"tokens": []}, "column 'tokens' is empty"),
    "answers": ({"question": "", "context": ""}, "columns 'question', 'context' are empty"),
    "translations": ({"source": ""}, "column 'source' is empty"),
    "pairs": ({"premise": "", "hypothesis": " "}, "columns 'premise', 'hypothesis' are empty"),
}


def test_bad_rows_are_named_by_file_line_and_column_and_nothing_is_written(
    model: FineTunedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = kind_of(model)
    first = KINDS[kind](41)
    blank, message = BLANK[kind]
    column = next(iter(first))
    bad_rows = [
        (blank, message),
        ({"other": sentence(1)}, f"no column {column!r}"),
        (first | {column: None}, f"column {column!r} is null"),
        (first | {column: [["a"], "b"]}, f"column {column!r} holds"),
        (first | {column: {"a": "b"}}, f"column {column!r} holds"),
    ]
    for bad, message in bad_rows:
        table = write_table("bad.jsonl", [first, bad, KINDS[kind](42)])
        command = ["predict", model.run, "--input", table, "--output", "good.jsonl"]
        assert main(command) == 2
        assert f"bad.jsonl:2: {message}" in capsys.readouterr().err
        assert not Path("good.jsonl").exists()
    assert main([*command, "--on_bad_row", "skip"]) == 0
    assert [row[column] for row in read_table("good.jsonl")] == [first[column], KINDS[kind](42)[column]]


def test_the_commands_of_a_project_predict_as_its_evaluation_and_export_the_model(
    model: FineTunedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.project)
    readme = Path("README.md").read_text().replace("runs/first", "run")
    line, table, export = re.findall(r"^t5x-like ((?:predict|convert) .+)$", readme, flags=re.MULTILINE)
    for command in (line, table, export):
        assert main(shlex.split(command)) == 0
    evaluate(model.run, batch_size=16)
    evaluated = list(read_jsonl(f"run/evaluation/{model.task}/predictions.jsonl"))
    for row, right in zip(read_table("predicted.jsonl"), evaluated, strict=True):
        number = isinstance(right["prediction"], float)
        assert row["prediction"] == (pytest.approx(right["prediction"]) if number else right["prediction"])
    assert Path("export/model.safetensors").is_file()


@pytest.mark.parametrize("name", ["bert_mlm", "bert_pretraining"])
def test_a_masked_language_model_writes_no_predictions(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = checkpoint(tmp_path, name)
    table = write_table("rows.csv", [{"text": sentence(0)}])
    assert main(["predict", source, "--input", table, "--output", "predicted.csv"]) == 2
    error = capsys.readouterr().err
    assert f"{name} is a language model without a head for rows" in error
    assert f"t5x-like new DIR --data FILE --checkpoint {source}" in " ".join(error.split())
    assert not Path("predicted.csv").exists()
