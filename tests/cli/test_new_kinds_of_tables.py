"""Each kind of table becomes a recipe that would train, with fresh weights and from checkpoints."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.cli.main import main, parser_of
from t5x_like.io.files import read_json, read_jsonl, write_json
from t5x_like.text.vocabularies.vocabulary_training import VocabularyTraining
from tests.cli.table_words import WORDS
from tests.cli.untrained_runs import SMALL_MODERNBERT, write_run
from tests.references import ROOT


def sentence(number: int, length: int = 6) -> str:
    return " ".join(WORDS[(number * 7 + place * (3 + number % 5)) % len(WORDS)] for place in range(length))


def numbers(row: int) -> dict[str, Any]:
    return {"review": sentence(row), "score": round(-3 + row * 1.7, 2)}


def tags(row: int) -> dict[str, Any]:
    words = sentence(row).split()
    return {"tokens": words, "ner_tags": ["B-PER" if word == "king" else "O" for word in words]}


def answers(row: int) -> dict[str, Any]:
    context = f"{sentence(row, 12)} {row}"
    text = [] if row % 9 == 0 else [str(row)]
    start = [len(context) - len(str(row))] * len(text)
    return {"question": "which one", "context": context, "answers": {"text": text, "answer_start": start}}


def plain_answers(row: int) -> dict[str, Any]:
    return {"question": "which one", "context": f"{sentence(row, 12)} {row}", "answer": str(row)}


def translations(row: int) -> dict[str, Any]:
    return {"source": sentence(row), "target": f"{sentence(row + 1)} {row}"}


def label_sets(row: int) -> dict[str, Any]:
    return {"text": sentence(row), "labels": ["b c", "a"][: 1 + row % 2]}


def names_in_one_cell(row: int) -> dict[str, Any]:
    return {"text": sentence(row), "genre": ["drama", "comedy|drama", "comedy", "action|drama"][row % 4]}


def documents(row: int) -> dict[str, Any]:
    return {"text": f"{sentence(row, 60)} {row}"}


def write(folder: Path, row: Callable[[int], dict[str, Any]], number: int = 40) -> str:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row(each)) + "\n" for each in range(number)), encoding="utf-8")
    return str(file)


def checkpoint(folder: Path, model: str, **settings: Any) -> str:
    """Copy a tiny model of the fixtures, and give it a vocabulary of its size."""
    target = folder / model
    shutil.copytree(ROOT / "tests" / "fixtures" / "models" / model, target)
    (folder / "words.txt").write_text("".join(sentence(each, 12) + "\n" for each in range(200)))
    if model.startswith("bert"):
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
        (target / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    else:
        inputs = str(folder / "words.txt")
        VocabularyTraining(kind="words", inputs=inputs, output=target / "words.json", size=20).run()
    if settings:
        write_json(target / "config.json", read_json(target / "config.json", dict) | settings)
    return str(target)


def check_commands(project: Path, printed: str, *, is_labeled: bool) -> None:
    """Check that the commands are the README's too, that their flags exist, and that they read files that are there."""
    commands = re.findall(r"^  t5x-like (.+)$", printed, flags=re.MULTILINE)
    readme = (project / "README.md").read_text()
    assert commands == re.findall(r"^t5x-like (.+)$", readme, flags=re.MULTILINE)
    verbs = ["tasks", "config", "train", *["evaluate", "predict", "predict"] * is_labeled, "convert"]
    assert [command.split()[0] for command in commands] == verbs
    for command in commands:
        verb, *flags = shlex.split(command)
        parser_of(verb).parse_args(flags)
    if is_labeled:
        table = re.search(r"predict runs/first --input (\S+) --output predicted.jsonl\n", printed)
        assert table
        assert (project / table[1]).is_file()
    assert ("writes a table with the predictions" in readme) == is_labeled


@pytest.mark.parametrize(
    ("text", "label", "flag"),
    [
        ("review", "stars", ""),
        ("review", "prediction", " --prediction_column predicted"),
        ("predicted", "probability", " --prediction_column prediction_2"),
        ("predicted_probability", "prediction", " --prediction_column prediction_2"),
    ],
)
def test_a_new_column_has_another_name_than_those_of_the_table(
    text: str,
    label: str,
    flag: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, lambda row: {text: sentence(row), label: row % 7 + 0.5})
    assert main(["new", "predictions_of_a_table", "--data", file]) == 0
    command = "t5x-like predict runs/first --input data/validation.jsonl --output predicted.jsonl"
    assert f"{command}{flag}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "shown", "written"),
    [
        (numbers, "numbers from -3 to 63.3, mean 30.15", "head = @sequence_head.Regression()"),
        (tags, "2 tags of 240 words: 'O'", "LABELS = ('B-PER', 'O')"),
        (answers, "answers in the context; 5 questions without an answer", "unanswerable = True"),
        (plain_answers, "column 'answer', answers in the context", "unanswerable = False"),
        (translations, "texts to write, 7.0 words on average", "METRICS = ('rouge', 'bleu')"),
        (label_sets, "1 to 2 labels for each row, of 2: 'b c' 100.0%, 'a' 50.0%", "LABELS = ('a', 'b c')"),
        (names_in_one_cell, "1 to 2 labels for each row, separated by '|', of 3", "separator = '|'"),
        (documents, "split: 32 rows of training, 8 of validation", "column = 'text'"),
    ],
)
def test_a_table_of_each_kind_becomes_a_valid_recipe(
    row: Callable[[int], dict[str, Any]],
    shown: str,
    written: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"table_of_{row.__name__}"
    assert main(["new", name, "--data", write(tmp_path, row)]) == 0, capsys.readouterr().err
    printed = capsys.readouterr().out
    assert shown in printed
    assert written in (tmp_path / name / "recipe.gin").read_text()
    check_commands(tmp_path / name, printed, is_labeled=row is not documents)
    monkeypatch.chdir(name)
    code = main(["config", "validate", "--gin_file=recipe.gin", "--model_dir", "runs/first"])
    assert code == 0, capsys.readouterr().err
    assert "recipe.gin: valid" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "model", "lines"),
    [
        (numbers, "bert_pretraining", ["head = @sequence_head.Regression()"]),
        (answers, "bert_qa", ["INPUTS_LENGTH = 32"]),
        (documents, "bert_pretraining", ["include 'gin/objectives/masked_lm.gin'", "layout = 'encoder'"]),
        (documents, "gpt2", ["include 'gin/objectives/causal_lm.gin'", "layout = 'decoder'"]),
        (translations, "t5_v11", ["INPUT_TEMPLATE = '{source}'", "Adafactor"]),
        (translations, "gpt2", [r"INPUT_TEMPLATE = '{source}\n'", "AdamW", "max_new_tokens = 16"]),
    ],
)
def test_a_checkpoint_of_each_family_goes_on_learning(
    row: Callable[[int], dict[str, Any]],
    model: str,
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"table_of_{row.__name__}_for_{model}"
    arguments = ["--data", write(tmp_path, row), "--checkpoint", checkpoint(tmp_path, model)]
    assert main(["new", name, *arguments]) == 0, capsys.readouterr().err
    recipe = (tmp_path / name / "recipe.gin").read_text()
    for line in lines:
        assert line in recipe
    monkeypatch.chdir(name)
    code = main(["config", "validate", "--gin_file=recipe.gin", "--model_dir", "runs/first"])
    assert code == 0, capsys.readouterr().err


def test_predicted_and_exported_numbers_have_the_scale_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, lambda row: {"review": sentence(row), "price": 50_000 + 1000.5 * (row % 7)})
    assert main(["new", "prices_of_a_table", "--data", file, "--label", "price"]) == 0
    monkeypatch.chdir("prices_of_a_table")
    write_run(Path("recipe.gin"), Path("runs/first"), SMALL_MODERNBERT)
    assert main(["evaluate", "--checkpoint", "runs/first"]) == 0
    rows = list(read_jsonl("runs/first/evaluation/prices_of_a_table/predictions.jsonl"))
    assert all(50_000 <= row["prediction"] <= 56_003 for row in rows)
    assert {row["target"] for row in rows} <= {50_000 + 1000.5 * each for each in range(7)}
    assert main(["convert", "--from", "runs/first", "--to", "export", "--export", "hf"]) == 0
    table = ["--input", "data/validation.jsonl", "--text", "review", "--output", "predicted.jsonl"]
    assert main(["predict", "export", *table]) == 0
    exported = [row["prediction"] for row in read_jsonl("predicted.jsonl")]
    np.testing.assert_allclose(exported, [row["prediction"] for row in rows], rtol=1e-6)


@pytest.mark.parametrize(
    ("row", "flags", "message"),
    [
        (translations, ["--checkpoint", "bert_pretraining"], "has no output layer to write texts"),
        (documents, ["--task", "pretrain", "--label", "text"], "--label=text is not for --task=pretrain"),
        (numbers, ["--task", "tags"], "tags need a column with lists of words"),
        (numbers, ["--task", "answers"], "extractive answers need a question, a context and answers"),
        (lambda row: numbers(row) | {"score": 3}, ["--task", "regress"], "has the number 3 in all 40 rows"),
        (lambda row: answers(row) | {"answers": "nowhere"}, [], "the answer 'nowhere' is not in the context"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tables_that_do_not_fit_are_refused(
    row: Callable[[int], dict[str, Any]],
    flags: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, row)
    if "--checkpoint" in flags:
        flags = ["--checkpoint", checkpoint(tmp_path, flags[1])]
    assert main(["new", "fresh", "--data", file, *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "fresh").exists()
