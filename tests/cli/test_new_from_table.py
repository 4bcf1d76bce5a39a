"""A project of a user's own table trains as it is written."""

import csv
import re
import shlex
from pathlib import Path

import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import read_json, read_jsonl
from tests.cli.table_words import WORDS

SMALL = [
    *("TRAIN_STEPS=3", "WARMUP_STEPS=1", "BATCH_SIZE=8"),
    *("LOG_EVERY_STEPS=1", "EVALUATE_EVERY_STEPS=0", "SAVE_EVERY_STEPS=0"),
]


def write_csv(file: Path, columns: list[str], rows: list[list[str]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([columns, *rows])


def text(number: int) -> str:
    return " ".join(WORDS[(number * 7 + place * 3) % len(WORDS)] for place in range(8)) + f" {number}"


def reviews(number: int = 60) -> list[list[str]]:
    return [[text(each), "bad" if each % 6 == 0 else "good", f"user {each // 3}"] for each in range(number)]


def run_new(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["new", *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def validate(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    code = main(["config", "validate", "--gin_file=recipe.gin", "--model_dir", "runs/first"])
    assert code == 0, capsys.readouterr().err
    printed = capsys.readouterr().out
    assert "recipe.gin: valid" in printed
    assert "note" not in printed


def test_a_classifier_of_a_csv_file_trains_evaluates_and_predicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*reviews(), ["", "good", "user 1"], ["no label", "", "user 2"], [*reviews()[3][:2], "user 1"]]
    rows.append([reviews()[4][0].upper(), "bad", "user 1"])
    write_csv(tmp_path / "rows.csv", ["review", "sentiment", "user_id"], rows)
    folder = tmp_path / "reviews_of_a_table"
    printed = run_new([str(folder), "--data", str(tmp_path / "rows.csv")], capsys)
    assert "rows.csv: 64 rows of CSV, columns 'review', 'sentiment', 'user_id'" in printed
    assert "2 classes: 'good' 82.3%, 'bad' 17.7%" in printed
    assert "left out: 2 rows" in printed
    assert "rows.csv:62: 'review' is empty" in printed
    assert "repeated: 1 row" in printed
    assert "contradictory: 1 text" in printed
    assert "by the groups of column 'user_id'" in printed
    assert "METRICS = ('macro_f1', 'accuracy')" in (folder / "recipe.gin").read_text()
    splits = [list(read_jsonl(folder / "data" / f"{name}.jsonl")) for name in ("train", "validation")]
    assert sum(map(len, splits)) == 62
    assert set(splits[1][0]) == {"review", "sentiment"}

    validate(folder, capsys, monkeypatch)
    sets = [f"--set={flag}" for flag in SMALL]
    assert main(["train", "--gin_file=recipe.gin", "--model_dir", "runs/first", *sets]) == 0
    assert main(["evaluate", "--checkpoint", "runs/first"]) == 0
    scores = read_json("runs/first/evaluation/scores.json")["tasks"]["reviews_of_a_table"]
    assert scores["examples"] == len(splits[1])
    capsys.readouterr()
    readme = (folder / "README.md").read_text()
    text, table, export = re.findall(r"^t5x-like ((?:predict|convert) .+)$", readme, flags=re.MULTILINE)
    assert main(shlex.split(text)) == 0
    assert capsys.readouterr().out.strip() in ("good", "bad")
    assert main(shlex.split(table)) == 0
    assert [row["review"] for row in read_jsonl("predicted.jsonl")] == [row["review"] for row in splits[1]]
    assert main(shlex.split(export)) == 0
    assert read_json("export/config.json")["model_type"] == "modernbert"


def test_a_pair_of_texts_with_its_own_validation_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [[text(each), text(each + 1), ["yes", "no", "maybe"][each % 3]] for each in range(30)]
    write_csv(tmp_path / "train.csv", ["premise", "hypothesis", "label"], rows)
    write_csv(tmp_path / "held_out.csv", ["premise", "hypothesis", "label"], [rows[0], *rows[27:]])
    folder = tmp_path / "pairs_of_a_table"
    files = ["--data", str(tmp_path / "train.csv"), "--validation", str(tmp_path / "held_out.csv")]
    printed = run_new([str(folder), *files], capsys)
    assert "split: 26 rows of training, 4 of " in printed
    assert "4 rows of training left out" in printed
    assert "texts = ('{premise}', '{hypothesis}')" in (folder / "recipe.gin").read_text()
    validate(folder, capsys, monkeypatch)


@pytest.mark.parametrize(
    ("rows", "flags", "message"),
    [
        (reviews(3), [], "3 usable rows; a split into training and validation needs at least 10"),
        (
            reviews(),
            ["--label", "lable"],
            "has no such column; the columns are 'review', 'sentiment', 'user_id'",
        ),
        (reviews(), ["--data", "absent.csv"], "'absent.csv' does not exist"),
        (reviews(), ["--checkpoint", "absent"], "--checkpoint=absent: absent holds no model"),
        ([[each, "good", user] for each, _, user in reviews()], [], "has one label, 'good', in all 60 rows"),
        (
            [[each, f"label {index}", "u"] for index, (each, _, _) in enumerate(reviews())],
            ["--task", "classify"],
            "has 60 labels in 60 rows",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tables_that_teach_nothing_are_refused_and_nothing_is_written(
    rows: list[list[str]],
    flags: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "rows.csv", ["review", "sentiment", "user_id"], rows)
    assert main(["new", "fresh", "--data", "rows.csv", *flags]) == 2
    assert message in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["rows.csv"]


def test_a_full_disk_leaves_no_half_written_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "rows.csv", ["review", "sentiment", "user_id"], reviews())
    (tmp_path / "fresh").mkdir()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "fresh/data/train.jsonl")

    monkeypatch.setattr("t5x_like.projects.project.write_jsonl", refuse)
    assert main(["new", "fresh", "--data", "rows.csv"]) == 2
    assert "no space left" in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["fresh", "rows.csv"]
    assert list((tmp_path / "fresh").iterdir()) == []
