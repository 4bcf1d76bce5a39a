"""Tables that ``t5x-like predict`` returns with the predictions of a run or of a published model."""

import csv
import io
import json
import sys
from itertools import product
from pathlib import Path

import jax
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from t5x_like.cli.main import main
from t5x_like.evaluation.row_predictors import HeadRowPredictor
from t5x_like.io.files import read_jsonl
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.frozen_weights import fresh_params
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from tests.cli.untrained_runs import share_predictors, write_run

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Ann", "saw", "Bo", "he", "left", "."]
RECIPE = """
from __gin__ import dynamic_registration
from t5x_like.text.tasks import text_task
include 'gin/hardware/cpu.gin'
include 'gin/runs/finetune_head.gin'
TASKS = (@text_task.TextTask(),)
MIXTURE = 'own'
text_task.TextTask:
    name = 'own'
    vocabulary = %VOCABULARY
    num_sentinels = 0
    files = {'train': 'rows.csv', 'validation': 'rows.csv', 'test': 'rows.csv'}
    input_template = '{body}'
    target_template = '{label}'
    labels = ('no', 'yes')
"""
TEXTS = ["Ann saw Bo", "he left .", "saw Bo", "Ann, he", "left"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a tiny BERT with a head of two classes, and a run that begins with it."""
    folder = tmp_path_factory.mktemp("home")
    config = BertConfig(
        vocab_size=len(WORDS),
        task="sequence_classification",
        num_labels=2,
        model_dim=16,
        mlp_dim=32,
        num_heads=2,
        num_layers=1,
        max_position_embeddings=64,
    )
    params = fresh_params(config, mesh=MeshConfig(data=1).build(jax.local_devices()[:1]), seed=3)
    # Fresh weights are so small that all texts have one class.
    write_hugging_face(config, jax.tree.map(lambda leaf: leaf * 25, params), folder / "bert")
    (folder / "bert/vocab.txt").write_text("\n".join(WORDS) + "\n")
    rows = [
        [" ".join(texts), "yes" if "Ann" in texts[0] else "no"]
        for texts in product(TEXTS, TEXTS, (".", "he"))
    ]
    with open(folder / "rows.csv", "w", newline="") as file:
        csv.writer(file).writerows([["body", "label"], *rows])
    (folder / "own.gin").write_text(RECIPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        settings = {"INITIAL_CHECKPOINT": "bert", "INPUTS_LENGTH": 32, "TRAIN_STEPS": 1, "WARMUP_STEPS": 0}
        write_run(Path("own.gin"), Path("run"), settings)
        assert main(["evaluate", "--checkpoint=run", "--set=EVALUATION_BATCH_SIZE=16"]) == 0
    return folder


@pytest.fixture(scope="module", autouse=True)
def _shared_predictors():
    with pytest.MonkeyPatch.context() as patch:
        share_predictors(patch)
        yield


@pytest.fixture(autouse=True)
def _in_home(home, monkeypatch):
    monkeypatch.chdir(home)


def rows_of(file):
    with open(file, newline="") as opened:
        return list(csv.DictReader(opened))


def test_a_table_comes_back_with_the_predictions_of_evaluate(home):
    assert main(["predict", "run", "--input", "rows.csv", "--output", "out.csv", "--scores"]) == 0
    rows = rows_of("out.csv")
    assert list(rows[0]) == [
        "body",
        "label",
        "prediction",
        "probability",
        "probability_no",
        "probability_yes",
    ]
    assert [(row["body"], row["label"]) for row in rows] == [
        (r["body"], r["label"]) for r in rows_of("rows.csv")
    ]
    assert {row["prediction"] for row in rows} == {"no", "yes"}
    evaluated = list(read_jsonl(home / "run/evaluation/own/predictions.jsonl"))
    assert [row["prediction"] for row in rows] == [row["prediction"] for row in evaluated]
    for row in rows:
        assert float(row["probability"]) == float(row[f"probability_{row['prediction']}"])
        assert float(row["probability_no"]) + float(row["probability_yes"]) == pytest.approx(1, abs=2e-6)
    assert not (home / "out.csv.partial").exists()


def test_a_killed_command_continues_to_the_same_bytes(home, monkeypatch, capsys):
    command = ["predict", "run", "--input", "rows.csv"]
    monkeypatch.setattr("t5x_like.evaluation.table_predictions._BATCHES_AT_ONCE", 1)
    assert main([*command, "--output", "whole.csv"]) == 0
    predict, calls = HeadRowPredictor.predict, []

    def killed_at_the_third(self, rows):
        calls.append(len(rows))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return predict(self, rows)

    monkeypatch.setattr(HeadRowPredictor, "predict", killed_at_the_third)
    assert main([*command, "--output", "half.csv"]) == 130
    assert not (home / "half.csv").exists()
    capsys.readouterr()
    assert main([*command, "--output", "half.csv", "--prediction_column", "other"]) == 2
    assert "half.csv.partial holds a part of a table" in capsys.readouterr().err
    calls.extend([0] * 3)
    assert main([*command, "--output", "half.csv"]) == 0
    assert calls[-2:] == [16, 2]  # only the pieces that were missing
    assert (home / "half.csv").read_bytes() == (home / "whole.csv").read_bytes()


def test_a_table_from_stdin_is_printed_with_columns_under_other_names(monkeypatch, capsys):
    lines = [json.dumps({"id": n, "tags": [n], "comment": text}) for n, text in enumerate(TEXTS)]
    stdin = io.TextIOWrapper(io.BytesIO("\n".join(lines).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    flags = ["--format", "jsonl", "--text", "comment", "--scores"]
    assert main(["predict", "run", "--input", "-", *flags]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert list(rows[1]) == ["id", "tags", "comment", "prediction", "probability", "scores"]
    assert [(row["id"], row["tags"], row["comment"]) for row in rows] == [
        (n, [n], text) for n, text in enumerate(TEXTS)
    ]
    assert all(row["scores"][row["prediction"]] == row["probability"] for row in rows)


def test_parquet_keeps_its_types_and_any_checkpoint_with_a_head_predicts(home):
    table = pa.table({"id": pa.array([1, 2, None], pa.int32()), "sentence": TEXTS[:3]})
    pq.write_table(table, home / "rows.parquet")
    assert main(["predict", "bert", "--input", "rows.parquet", "--output", "out.parquet", "--scores"]) == 0
    written = pq.read_table(home / "out.parquet")
    assert written.select(["id", "sentence"]).equals(table)
    assert set(written["prediction"].to_pylist()) <= {"LABEL_0", "LABEL_1"}
    assert set(written["scores"][0].as_py()) == {"LABEL_0", "LABEL_1"}


def test_bad_rows_are_named_or_left_out(home, capsys, caplog):
    (home / "odd.jsonl").write_text('{"body": "Ann"}\n{"body": null}\n{"body": "he"}\n{broken\n')
    command = ["predict", "run", "--input", "odd.jsonl", "--output", "odd_out.jsonl"]
    assert main(command) == 2
    assert "odd.jsonl:2: column 'body' is null" in capsys.readouterr().err
    assert not (home / "odd_out.jsonl").exists()
    assert main([*command, "--on_bad_row", "skip"]) == 0
    assert [row["body"] for row in read_jsonl(home / "odd_out.jsonl")] == ["Ann", "he"]
    assert "skipped 2 of 4 rows (first: odd.jsonl:2" in caplog.text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--input", "taken.csv"], "taken.csv:2: the table has a column 'prediction' already"),
        (["--input", "absent.csv"], "--input absent.csv: there is no such file"),
        (["--input", "rows.csv", "--output", "rows.csv"], "is the input; name another file"),
        (["--input", "rows.csv", "--output", "out.xlsx"], "a name that ends with .csv"),
        (["--input", "rows.csv", "--text", "bdy"], "did you mean 'body'?"),
        (["--input", "rows.csv", "--text", "body", "label"], "--text names 2 columns"),
        (["--input", "Ann saw Bo", "--scores"], "--scores is for tables"),
        (["--input", "-"], "say its format: --format"),
        (["--input", "rows.csv", "--format", "jsonl", "--columns", "body"], "--columns is for CSV and TSV"),
        (["--input", "Ann saw Bo", "--columns", "body"], "--columns is for tables"),
        (
            ["--input", "rows.csv", "--columns", "body", "body"],
            "columns of rows.csv: two columns have the same name",
        ),
    ],
)
def test_what_would_lose_something_or_have_no_effect_is_refused(home, flags, message, capsys):
    (home / "taken.csv").write_text("body,prediction\nAnn,old\n")
    before = (home / "rows.csv").read_bytes()
    assert main(["predict", "run", *flags]) == 2
    assert message in capsys.readouterr().err
    assert (home / "rows.csv").read_bytes() == before


def test_another_name_of_the_column_keeps_the_old_one(home, capsys):
    (home / "taken.csv").write_text("body,prediction\nAnn,old\n")
    assert main(["predict", "run", "--input", "taken.csv", "--prediction_column", "new"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "body,prediction,new,new_probability"


def test_a_table_separated_by_semicolons_is_read_as_new_reads_it(home, capsys):
    (home / "plain.csv").write_text("body;label\nAnn saw;yes\nhe left;no\n")
    assert main(["predict", "run", "--input", "plain.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "body;label;prediction;probability"


def test_columns_without_names_are_named_by_a_flag(home, capsys):
    (home / "nameless.csv").write_text("7,Ann saw Bo\n8,he left .\n")
    assert main(["predict", "run", "--input", "nameless.csv"]) == 2
    refused = capsys.readouterr().err
    assert "nameless.csv has no column 'body'; the columns are 7, Ann saw Bo" in refused
    assert "--columns NAME NAME" in refused
    assert main(["predict", "run", "--input", "nameless.csv", "--columns", "id", "body"]) == 0
    assert [line.split(",")[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["7", "Ann saw Bo"],
        ["8", "he left ."],
    ]


def test_another_encoding_is_refused_with_the_command_that_converts_it(home, capsys):
    (home / "windows.csv").write_bytes("body,label\nAnn saw Bö,yes\n".encode("cp1252"))
    assert main(["predict", "run", "--input", "windows.csv"]) == 2
    assert "windows.csv:2: invalid UTF-8" in (printed := capsys.readouterr().err)
    assert "iconv -f WINDOWS-1252 -t UTF-8 'windows.csv' > OTHER_FILE" in printed


def test_a_file_is_never_predicted_by_its_name(home, capsys):
    (home / "my table.csv").write_text("body\nAnn\n")
    (home / "lines.txt").write_text("body\nAnn\n")
    assert main(["predict", "run", "--input", "my table.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "body,prediction,probability"
    assert main(["predict", "run", "--input", "lines.txt"]) == 2
    assert "--input lines.txt is a file whose name is of no table" in capsys.readouterr().err


def test_another_treatment_of_bad_rows_continues_a_stopped_table(home, monkeypatch, capsys):
    monkeypatch.setattr("t5x_like.evaluation.table_predictions._BATCHES_AT_ONCE", 1)
    (home / "late.csv").write_text("body\n" + "Ann\n" * 16 + '""\nhe\n')
    command = ["predict", "run", "--input", "late.csv", "--output", "late_out.csv"]
    assert main(command) == 2
    assert "late.csv:18: column 'body' is empty; there is nothing to predict" in capsys.readouterr().err
    assert not (home / "late_out.csv").exists()
    assert main([*command, "--on_bad_row", "skip"]) == 0
    assert [row["body"] for row in rows_of("late_out.csv")] == ["Ann"] * 16 + ["he"]
